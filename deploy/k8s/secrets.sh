#!/bin/sh
# secrets.sh [--dev] [--config config.json] [--certificates] [--offline]: prints manifests of the Secrets that deploy/k8s
# needs and that the cluster lacks:
#
#   deploy/k8s/secrets.sh --dev | kubectl apply -f -
#
# Existing Secrets are kept: with a new master key, stored credentials would become unreadable. --certificates renews the
# certificates of roles and BuildKit anyway (they are valid for 825 days). --offline does not query the cluster and prints
# all Secrets. Protect the output like a password. You can also create the Secrets with your own secret store:
# base/kustomization.yaml lists them. --dev adds passwords and addresses of the stores in components/dev-stores; without
# it, set DATABASE_URL, REDIS_URL and NATS_URL. --config is a docker config.json with the service's registry logins.
# NAMESPACE (slipway) and BUILDKIT_NAMESPACE (slipway-buildkit) are the target namespaces. Needs openssl and kubectl.
set -eu
umask 077
ns=${NAMESPACE:-slipway} bkns=${BUILDKIT_NAMESPACE:-slipway-buildkit}
dev= config= certificates= offline=
while [ $# -gt 0 ]; do
	case $1 in
	--dev) dev=1 ;;
	--config) config=${2:?} && shift ;;
	--certificates) certificates=1 ;;
	--offline) offline=1 ;;
	*) sed -n '2,13s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
	esac
	shift
done
[ -n "$offline" ] || kubectl get namespaces >/dev/null || {
	echo 'secrets.sh: kubectl cannot reach the cluster, so the existing Secrets are unknown; for a first installation use --offline' >&2
	exit 1
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
cd "$dir"

authority() { # NAME
	openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"
	openssl req -x509 -new -key "$1.key" -days 3650 -subj "/CN=slipway $1" -out "$1.crt"
}
certificate() { # NAME AUTHORITY USAGES NAMES
	openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"
	openssl req -new -key "$1.key" -subj "/CN=$1" -out "$1.csr"
	printf 'basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=%s\nsubjectAltName=%s\n' "$3" "$4" >"$1.ext"
	openssl x509 -req -in "$1.csr" -CA "$2.crt" -CAkey "$2.key" -CAcreateserial -days 825 -extfile "$1.ext" -out "$1.crt" 2>/dev/null
}
have() { # NAMESPACE NAME…: reports whether the cluster has all of these Secrets
	[ -z "$offline" ] || return 1
	in=$1 && shift
	for name in "$@"; do
		found=$(kubectl get secret "$name" --namespace "$in" --ignore-not-found --output name) || exit
		[ -n "$found" ] || return 1
	done
	echo "kept in $in: $*" >&2
}
namespace() { # NAME POD-STANDARD: it must be there before its Secrets
	printf 'apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {pod-security.kubernetes.io/enforce: %s}}\n---\n' "$1" "$2"
}
secret() { # NAMESPACE NAME KEY=FILE…
	printf 'apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s}\ndata:\n' "$2" "$1"
	shift 2
	for entry in "$@"; do
		printf '  %s: %s\n' "${entry%%=*}" "$(openssl base64 -A -in "${entry#*=}")"
	done
	echo '---'
}
password() { printf 'p%s' "$(openssl rand -hex 16)" >"$1"; }

roles='platform container build builder conda inspect metrics registry gateway'
namespace "$ns" restricted
namespace "$bkns" privileged
# shellcheck disable=SC2086
if [ -n "$certificates" ] || ! have "$ns" $(printf 'slipway-rpc-%s ' $roles); then
	authority rpc-ca
	for role in $roles; do
		certificate "rpc-$role" rpc-ca serverAuth,clientAuth \
			"URI:spiffe://slipway/$role,DNS:$role,DNS:$role.$ns,DNS:$role.$ns.svc,DNS:$role.$ns.svc.cluster.local"
		secret "$ns" "slipway-rpc-$role" tls.crt="rpc-$role.crt" tls.key="rpc-$role.key" ca.crt=rpc-ca.crt
	done
fi
if [ -n "$certificates" ] || ! have "$bkns" slipway-buildkit || ! have "$ns" slipway-buildkit; then
	authority buildkit-ca
	certificate buildkitd buildkit-ca serverAuth "DNS:*.buildkit.$bkns.svc.cluster.local,DNS:buildkit.$bkns.svc.cluster.local"
	certificate builder buildkit-ca clientAuth DNS:builder
	secret "$bkns" slipway-buildkit tls.crt=buildkitd.crt tls.key=buildkitd.key ca.crt=buildkit-ca.crt
	secret "$ns" slipway-buildkit tls.crt=builder.crt tls.key=builder.key ca.crt=buildkit-ca.crt
fi
if ! have "$ns" slipway-platform; then
	printf '{"tid":1}.%s' "$(openssl rand -hex 20)" | openssl base64 -A >admin-token
	openssl rand -base64 32 >master-key
	secret "$ns" slipway-platform admin-token=admin-token master-key=master-key
fi
if [ -n "$config" ]; then # relative to the caller's directory
	(cd "$OLDPWD" && cat "$config") >config.json
	secret "$ns" slipway-registries config.json=config.json
elif ! have "$ns" slipway-registries; then
	echo '{"auths":{}}' >config.json
	secret "$ns" slipway-registries config.json=config.json
fi
if [ -n "$dev" ]; then
	have "$ns" slipway-dev-stores slipway-stores && exit
	for store in nats redis postgres; do
		if have "$ns" slipway-dev-stores 2>/dev/null; then
			kubectl get secret slipway-dev-stores --namespace "$ns" --output "go-template={{index .data \"$store-password\" | base64decode}}" >"$store-password"
		else
			password "$store-password"
		fi
	done
	DATABASE_URL="postgres://slipway:$(cat postgres-password)@postgres.$ns.svc.cluster.local:5432/slipway?sslmode=disable"
	REDIS_URL="redis://:$(cat redis-password)@redis.$ns.svc.cluster.local:6379/0"
	NATS_URL="nats://slipway:$(cat nats-password)@nats.$ns.svc.cluster.local:4222"
	secret "$ns" slipway-dev-stores nats-password=nats-password redis-password=redis-password postgres-password=postgres-password
elif [ -z "${DATABASE_URL:-}${REDIS_URL:-}${NATS_URL:-}" ] && have "$ns" slipway-stores; then
	exit
fi
printf %s "${DATABASE_URL:?}" >database-url
printf %s "${REDIS_URL:?}" >redis-url
printf %s "${NATS_URL:?}" >nats-url
secret "$ns" slipway-stores database-url=database-url redis-url=redis-url nats-url=nats-url
