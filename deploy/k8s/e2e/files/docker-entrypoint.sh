#!/bin/sh
# The parts of the official PostgreSQL image's entry point that the manifests use.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
	mkdir -p "$PGDATA"
	chmod 700 "$PGDATA"
	printf %s "$POSTGRES_PASSWORD" >/tmp/password
	initdb -D "$PGDATA" -U "$POSTGRES_USER" --pwfile=/tmp/password --auth-host=scram-sha-256 --auth-local=trust --encoding=UTF8 --no-sync
	rm /tmp/password
	echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
	echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
	echo "CREATE DATABASE $POSTGRES_DB" | postgres --single -D "$PGDATA" postgres
fi
exec "$@"
