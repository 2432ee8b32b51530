TEXMFROOT=$CONDA_PREFIX/share/texlive
export TEXMFCNF="${TEXMFROOT}/texmf-dist/web2c"
add_path() {
    # usage: add_path VARIABLE FOLDER
    local var="$1" dir=$2 current
    eval "current=\"\${$var:-}\""
    case ":$current:" in
        *":$dir:"*) return 0 ;;
    esac
    eval "export $var=\"\$dir\${current:+:\$current}\""
}
add_path INFOPATH "$CONDA_PREFIX/share/info"
add_path INFOPATH "$CONDA_PREFIX/share/info"
add_path INFOPATH "$CONDA_PREFIX/info"
add_path PATH "$CONDA_PREFIX/bin"
unset -f add_path
