# Builds R packages from source, from a CRAN mirror. The first line of the file "cran" in the
# working directory is the URL of the mirror. Each further line is a package: its name, a tab
# and its version, which is empty for the newest. Missing dependencies are built as well.
lines <- readLines("cran")
mirror <- sub("/+$", "", lines[1])
wanted <- strsplit(paste0(lines[-1], "\t"), "\t", fixed = TRUE)
names <- vapply(wanted, function(w) w[1], "")
versions <- vapply(wanted, function(w) if (length(w) > 1) w[2] else "", "")

fail <- function(...) {
  message("slipway: ", ...)
  quit(save = "no", status = 1)
}

options(timeout = 600, repos = c(CRAN = mirror))
contrib <- paste0(mirror, "/src/contrib")
available <- suppressWarnings(available.packages(contriburl = contrib))
if (nrow(available) == 0) fail("the CRAN mirror ", mirror, " has no list of packages, or cannot be reached")

# Versions other than the newest are in the archive. They are copied to a local repository.
own <- file.path(tempdir(), "own")
dir.create(own)
for (i in which(versions != "")) {
  newest <- names[i] %in% rownames(available) && available[names[i], "Version"] == versions[i]
  if (newest) next
  file <- paste0(names[i], "_", versions[i], ".tar.gz")
  urls <- paste0(contrib, c("/", paste0("/Archive/", names[i], "/")), file)
  for (url in urls) {
    got <- tryCatch(suppressWarnings(download.file(url, file.path(own, file), quiet = TRUE)) == 0, error = function(e) FALSE)
    if (got) break
    unlink(file.path(own, file))
  }
  if (!got) fail("the CRAN mirror ", mirror, " has no ", names[i], " ", versions[i])
}
absent <- setdiff(names[versions == ""], rownames(available))
if (length(absent) > 0) fail("the CRAN mirror ", mirror, " has no ", paste(absent, collapse = ", "))
repositories <- contrib
if (length(list.files(own)) > 0) {
  tools::write_PACKAGES(own, type = "source")
  local <- paste0("file://", own)
  archived <- available.packages(contriburl = local, filters = list())
  available <- rbind(archived, available[!rownames(available) %in% rownames(archived), , drop = FALSE])
  repositories <- c(local, contrib)
}

install.packages(names, lib = .Library, contriburl = repositories, available = available, type = "source", quiet = FALSE)

# install.packages only warns about packages that it could not build.
for (i in seq_along(names)) {
  version <- tryCatch(as.character(packageDescription(names[i], lib.loc = .Library, fields = "Version")), error = function(e) NA, warning = function(w) NA)
  if (is.na(version)) fail("the R package ", names[i], " could not be built: see above")
  if (versions[i] != "" && version != versions[i]) fail("the R package ", names[i], " is ", version, " instead of ", versions[i])
}
