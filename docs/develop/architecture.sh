#!/bin/sh
# architecture.sh: prints the picture of README and docs/develop/architecture.md as an SVG.
# `make reference` writes it to architecture.svg. Colours follow the reader's light or dark theme.
set -eu

# box X Y WIDTH HEIGHT CLASS TITLE [LINE…] draws a box with a title and smaller lines below it.
box() {
	x=$1 y=$2 w=$3 h=$4 class=$5 title=$6
	shift 6
	middle=$((x + w / 2)) line=$((y + 22))
	[ $# -gt 0 ] || line=$((y + h / 2 + 5))
	echo "<rect class='$class' x='$x' y='$y' width='$w' height='$h' rx='6'/>"
	echo "<text class='title' x='$middle' y='$line'>$title</text>"
	for text in "$@"; do
		line=$((line + 17))
		echo "<text x='$middle' y='$line'>$text</text>"
	done
}

# arrow PATH [X Y LABEL] draws an arrow along an SVG path.
arrow() {
	echo "<path class='arrow' d='$1' marker-end='url(#head)'/>"
	[ $# -lt 4 ] || echo "<text class='label' x='$2' y='$3'>$4</text>"
}

# column X TITLE heads a column.
column() { echo "<text class='column' x='$1' y='24'>$2</text>"; }

cat <<'EOF'
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 940 430" width="940" height="430" role="img" aria-labelledby="title">
<title id="title">Clients call the gateway or pull from the registry; both use the services, which read image registries and Conda channels</title>
<style>
text { font: 12px system-ui, sans-serif; fill: #57606a; text-anchor: middle }
.title { font-size: 14px; font-weight: 600; fill: #1f2328 }
.column { font-size: 12px; letter-spacing: 1px; fill: #57606a }
.label { font-size: 11px }
rect { stroke-width: 1.5 }
.outside { fill: #f6f8fa; stroke: #8c959f }
.door { fill: #ddf4ff; stroke: #0969da }
.service { fill: #dafbe1; stroke: #1a7f37 }
.store { fill: #fff8c5; stroke: #9a6700 }
.frame { fill: none; stroke: #8c959f; stroke-dasharray: 4 4 }
.arrow { fill: none; stroke: #8c959f; stroke-width: 1.5 }
#head path { fill: #8c959f }
@media (prefers-color-scheme: dark) {
text, .column { fill: #adbac7 }
.title { fill: #f0f6fc }
.outside { fill: #21262d; stroke: #768390 }
.door { fill: #0c2d6b; stroke: #539bf5 }
.service { fill: #0f3d20; stroke: #57ab5a }
.store { fill: #3b2d00; stroke: #c69026 }
}
</style>
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 L10 5 L0 10 z"/></marker></defs>
EOF
column 95 'CLIENTS'
column 305 'ENTRY POINTS'
column 560 'SERVICES (gRPC)'
column 840 'OTHER SERVERS'

box 10 50 170 90 outside 'Requests' 'Nextflow, wave-cli, tw' 'slipway, curl' 'web page'
box 10 235 170 90 outside 'Pulls' 'docker, podman' 'containerd, Kubernetes' 'Singularity'

box 240 65 130 60 door 'gateway' 'REST, page'
box 240 250 130 60 door 'registry' '/v2/ (OCI)'

echo "<rect class='frame' x='428' y='36' width='264' height='288' rx='8'/>"
box 440 47 115 54 service 'container' 'requests, names'
box 565 47 115 54 service 'platform' 'users, logins'
box 440 111 115 54 service 'conda' 'solves packages'
box 565 111 115 54 service 'inspect' 'reads images'
box 440 175 115 54 service 'build' 'queue, logs'
box 565 175 115 54 service 'metrics' 'counts'
box 440 252 240 60 service 'builder' 'packages to layers, BuildKit, SIF'

box 770 50 160 73 outside 'Conda channels' 'conda-forge, bioconda' 'your own'
box 770 252 160 73 outside 'Image registries' 'Docker Hub, quay.io' 'your own'

box 428 350 264 40 store 'SQL · Redis · NATS'

arrow 'M180 95 H236' 208 88 'REST'
arrow 'M180 280 H236' 208 273 'pull'
arrow 'M370 95 H424'
arrow 'M370 280 H424'
arrow 'M497 229 V248' 520 244 'jobs'
arrow 'M560 324 V346'
arrow 'M692 86 H766' 729 79 'packages'
arrow 'M692 282 H766' 729 275 'images'
arrow 'M305 310 V412 H850 V329' 360 405 'layers, streamed'
echo '</svg>'
