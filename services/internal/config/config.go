// Package config defines every setting of the server in one struct. The value of a setting is
// that of its flag, or else of its environment variable, or else of its key in a file, or else
// its default. Its name is the same everywhere: `--egress-allow`, `SLIPWAY_EGRESS_ALLOW`,
// `egress_allow`. The reference page deploy/config.md is generated from this struct.
package config

import (
	"time"

	"slipway.dev/services/internal/ratelimit"
)

// Config holds all settings. An empty URL or address selects the implementation inside this
// process. A group starts with the field that names it. Settings that most installations
// set are marked as common.
type Config struct {
	HTTPAddr         string `group:"Addresses" key:"http_addr" common:"true" default:"127.0.0.1:9090" help:"Where the REST API and the registry listen. On a loopback address only the host names localhost and those of public_url and platform_url are accepted."`
	PlatformHTTPAddr string `key:"platform_http_addr" default:"127.0.0.1:9091" help:"Where the gateway role also offers the platform's REST API, with its paths at the root; it is under /api at http_addr, too. Empty: only there."`
	AdminAddr        string `key:"admin_addr" default:"127.0.0.1:9099" help:"Where /livez, /readyz, /metrics and pprof listen; keep it private."`
	GRPCAddr         string `key:"grpc_addr" default:"127.0.0.1:9095" help:"Where this process offers its gRPC services when it plays only some roles. An address that other machines reach needs rpc_cert_file or rpc_secret_file."`
	PublicURL        string `key:"public_url" common:"true" help:"The address that clients use; its host goes into the names that requests return, and web pages at it may use the API. Empty: where http_addr listens, by the name of localhost unless that is one address of the machine."`
	DataDir          string `group:"Data" key:"data_dir" common:"true" default:"./data" help:"Folder for everything that is kept on this machine's disk."`
	DiskReserve      Bytes  `key:"disk_reserve" default:"1GiB" help:"Free space that stays on the disks of data_dir and of the folder blob_cache. Below it, workers on this machine take no builds and the blob cache stores nothing more; pulls continue. 0: no reserve."`

	StoreAddr string `key:"store_addr" default:"127.0.0.1:9092" help:"Where the embedded image store listens for the process's own use; its images are pulled through http_addr. Stored names contain its address, so do not change it."`

	StoreKeep time.Duration `key:"store_keep" default:"720h" help:"How long the embedded image store keeps an image after its last request or pull. Images that an unexpired name needs are always kept. 0: forever."`
	StoreSize Bytes         `key:"store_size" default:"0" help:"Disk space for the images of the embedded store; beyond it the least recently used images that no name needs are removed. 0: no limit."`

	DatabaseURL string `group:"Stores" key:"database_url" common:"true" secret:"true" help:"sqlite:PATH or postgres://… Empty: SQLite in data_dir."`
	NATSURL     string `key:"nats_url" secret:"true" help:"nats://… Empty: NATS inside this process."`
	RedisURL    string `key:"redis_url" secret:"true" help:"redis://…, redis+sentinel://…/MASTER or redis+cluster://… Empty: Redis inside this process, in memory only."`

	BuildAddr     string `group:"Roles of other processes" key:"build_addr" help:"The build role, when another process plays it: host:port or dns:///host:port."`
	CondaAddr     string `key:"conda_addr" help:"The conda role, likewise; without it, no packages are found or locked."`
	ContainerAddr string `key:"container_addr" help:"The container role, likewise."`
	InspectAddr   string `key:"inspect_addr" help:"The inspect role, likewise."`
	MetricsAddr   string `key:"metrics_addr" help:"The metrics role, likewise; without it, no counts are shown."`
	PlatformAddr  string `key:"platform_addr" help:"The platform role, likewise."`

	TLSCertFile   string `group:"Certificates" key:"tls_cert_file" help:"Certificate for HTTPS at http_addr and platform_http_addr; read again when it changes. Empty: plain HTTP, for an ingress that ends TLS."`
	TLSKeyFile    string `key:"tls_key_file" help:"Private key of tls_cert_file."`
	RPCCertFile   string `key:"rpc_cert_file" help:"Certificate of this process towards other roles, both as server and as client (mTLS). As a client it acts as the roles that the certificate names: a URI spiffe://slipway/ROLE for each."`
	RPCKeyFile    string `key:"rpc_key_file" help:"Private key of rpc_cert_file."`
	RPCCAFile     string `key:"rpc_ca_file" help:"Authority that signed the other roles' certificates."`
	RPCSecretFile string `key:"rpc_secret_file" help:"A file with a secret that all roles share, where there are no certificates. It keeps other machines out, but a compromised role can then act as any other role: use rpc_cert_file where that matters. Empty: data_dir/rpc-secret, which the first role that starts with this data_dir creates. Roles with another data_dir, or on another machine, need this setting or rpc_cert_file."`

	EgressAllow        []string `group:"Registries and other machines" key:"egress_allow" common:"true" help:"Private addresses, networks or host names that may be reached; by default only public addresses may."`
	InsecureRegistries []string `key:"insecure_registries" help:"Registries (host:port) that are contacted over plain HTTP."`
	RegistryMirrors    []string `key:"registry_mirrors" help:"Mirrors of registries: REGISTRY=HOST[:PORT][/PATH], several with commas, e.g. docker.io=mirror.example.org/dockerhub. Reads go to mirrors first, in order and without a login; the registry itself serves what they lack, and all reads while they are unavailable. Everyone who can reach the service can read what they can read. A private address needs egress_allow."`
	RegistryAuthFile   string   `key:"registry_auth_file" help:"Service credentials for registries, in the format of docker's config.json; keys are hosts or host/path. Everyone who can reach the service can read what they can read."`
	OperatorAccounts   string   `group:"Operators and counts" key:"operator_accounts_file" help:"Accounts (htpasswd, bcrypt) that may call DELETE /container-token/{token}. Empty: the call is disabled and returns 404."`
	MetricsAccounts    string   `key:"metrics_accounts_file" help:"Accounts (htpasswd, bcrypt) that may read /v1alpha2/metrics beside the platform's administrator. Empty: only the administrator may."`
	CountPulls         bool     `key:"count_pulls" default:"true" help:"Whether pulls are recorded and counted."`
	FilesystemPrefix   string   `key:"filesystem_layer_prefix" help:"Prefix of the URL of a file system client's layer; pulls of images with such a layer are counted as filesystem pulls. Empty: none are."`
	CORSOrigins        []string `key:"cors_origins" help:"Origins of web pages that may use the REST API, e.g. https://portal.example.org. Their users' access tokens are sent by the page itself."`
	TrustedProxies     []string `key:"trusted_proxies" help:"Addresses or networks of proxies whose X-Forwarded-For is trusted."`

	PlatformURL          string        `group:"Platform and users" key:"platform_url" help:"The platform's public address; container requests that name it, or no platform at all, are checked by the platform role. Empty: where platform_http_addr listens, like public_url, or else public_url/api."`
	PlatformEndpoints    []string      `key:"platform_endpoints" help:"Base addresses of other platforms that are trusted to identify their users; container requests may name them as platformEndpoint."`
	PlatformAuthFile     string        `key:"platform_auth_file" help:"Operator accounts at platform_endpoints, with which this one reads its users' credentials there, in the format of docker's config.json; keys are hosts or host/path."`
	OIDCIssuer           string        `key:"oidc_issuer" help:"An OpenID Connect provider at which users may sign in. A user is found by the verified e-mail address at the first sign-in, and from then on by the account at the provider (see slipwayd user unlink). It sends users back to platform_url/oauth/callback. Empty: users sign in with an access token only."`
	OIDCName             string        `key:"oidc_name" help:"The name of the provider, e.g. University of Example, for the button that says \"Sign in with\" and this name. Empty: your organisation's account."`
	OIDCClientID         string        `key:"oidc_client_id" help:"The provider's client ID for this platform."`
	OIDCClientSecretFile string        `key:"oidc_client_secret_file" help:"A file with the provider's client secret for this platform. Empty: it is a public client."`
	OIDCAutoCreate       []string      `key:"oidc_auto_create" help:"Domains of e-mail addresses, e.g. example.org. A user is created at the first sign-in with an address of such a domain that the provider has verified. The entry groups does so for users who are in a group of oidc_groups, and the entry invitations for users whose address an organisation or a workspace has invited; invitations@example.org does so for addresses of this domain only. Empty: users without an account are rejected."`
	OIDCScopes           []string      `key:"oidc_scopes" help:"Scopes that are requested at the provider besides openid and email, e.g. groups or profile, where it sends groups for that scope only."`
	OIDCGroups           []string      `key:"oidc_groups" help:"Roles of the provider's groups, several with commas: GROUP=ORGANISATION[:owner], GROUP=ORGANISATION/WORKSPACE:ROLE, GROUP=administrator. They are granted at each sign-in, and revoked at the first sign-in after the user has left the group; roles that users have granted stay. See docs/operate/sso.md."`
	OIDCGroupsClaim      string        `key:"oidc_groups_claim" default:"groups" help:"The claim of the ID token, or of the provider's UserInfo endpoint, that lists a user's groups."`
	TokenMaxLifetime     time.Duration `key:"token_max_lifetime" default:"0" help:"How long new access tokens may be valid at most, e.g. 8760h. Tokens are valid for 90 days, or this if it is shorter, unless their user names another time. 0: no maximum, and tokens may be valid forever."`
	MasterKeyFile        string        `key:"master_key_file" help:"The keys that encrypt the keys of stored credentials (slipwayd keys). Empty: data_dir/master-key, which a process that plays all roles creates; a separate platform role then stores no credentials and allows no sign-in."`
	SigningKeyFile       string        `key:"signing_key_file" help:"The private key that signs images and their provenance: ECDSA P-256 in PKCS#8 as PEM. Clients get the public key at /.well-known/slipway/cosign.pub. Empty: data_dir/signing-key, which a process that plays all roles creates; a separate container role then signs nothing."`
	SigningAgent         string        `key:"signing_agent" help:"The Unix socket of an SSH agent that has the private key, for example in a PKCS#11 token. signing_key_file is then the public key as PEM. Signatures are stored in the database. Empty: signing_key_file is the private key."`
	SigningRetiredKeys   []string      `key:"signing_retired_keys" help:"Files with the public keys that signing_key_file or signing_fulcio replaced, newest first, as PEM: slipway verify still accepts signatures of bundles and mirrors that were made with them. Several with commas."`
	SigningFulcio        string        `key:"signing_fulcio" help:"The URL of a certificate authority Fulcio: images are signed with short-lived keys, whose certificates it issues for signing_identity_token_file. Requires signing_timestamp and signing_trusted_root, and excludes signing_key_file and signing_agent. Signatures are stored in the database. Empty: one key signs."`
	SigningTimestamp     string        `key:"signing_timestamp" help:"The URL of a timestamp authority (RFC 3161), with its path: it states when an image was signed, because the certificates of signing_fulcio are valid for some minutes only."`
	SigningIdentityToken string        `key:"signing_identity_token_file" help:"A file with the OpenID Connect token that identifies this server to signing_fulcio, for example of a Kubernetes service account. It is read again for each statement; another program replaces it before it expires."`
	SigningTrustedRoot   string        `key:"signing_trusted_root" help:"A file with the authorities of signing_fulcio and signing_timestamp: a trusted root of Sigstore as JSON. Each new signature is verified with it, and clients get it at /.well-known/slipway/trusted-root.json. It is read at the start."`
	SignSIF              bool          `key:"sign_sif" default:"false" help:"Whether each new Singularity image contains a signature with signing_key_file, which apptainer verify --key checks. The roles container and build then need the key. Equal images of servers with different keys then have different digests."`
	AdminEmail           string        `key:"admin_email" default:"admin@localhost" help:"E-mail address of the first user."`
	AdminTokenFile       string        `key:"admin_token_file" help:"A file that holds the first user's access token. Empty: one is created in data_dir/admin-token at the first start."`
	AdminRegistryAuth    string        `key:"admin_registry_auth_file" help:"The first user's registry credentials, in the format of docker's config.json."`
	AuditRetention       time.Duration `key:"audit_retention" default:"8760h" help:"How long events of the audit trail are stored: changes, sign-ins and rejected attempts. 0: forever."`
	AuditSink            string        `key:"audit_sink" help:"Where the role platform also writes each event of the audit trail, as a line of JSON: the absolute path of a file, syslog: for the syslog daemon of this machine (/dev/log, or syslog:/PATH for another socket), or syslog://HOST:PORT or syslog+tls://HOST:PORT for a receiver of RFC 5424 with octet counting (with ?close=any if it ends TLS without an alert). Events that it does not accept wait in the database. Empty: nowhere."`
	AnonymousAccess      bool          `key:"anonymous_access" default:"true" help:"Whether container requests without an access token are served."`

	LimitPullsUser      ratelimit.Limit `group:"Limits of callers" key:"limit_pulls_user" reload:"true" default:"1000/1m" help:"Image pulls of one user. 0: no limit."`
	LimitPullsAnonymous ratelimit.Limit `key:"limit_pulls_anonymous" reload:"true" default:"250/1h" help:"Image pulls of one address without a user: an IPv4 address or an IPv6 /64. An IPv6 /56 has twice, and a /48 four times as much; so in all limits of addresses. 0: no limit."`

	LimitRequestsUser      ratelimit.Limit `key:"limit_requests_user" reload:"true" default:"2000/1m" help:"Container requests of one user; one that stores new layers counts once more for each 256 KiB of them. 0: no limit."`
	LimitRequestsAnonymous ratelimit.Limit `key:"limit_requests_anonymous" reload:"true" default:"500/1h" help:"Container requests of one address without a user, likewise. 0: no limit."`

	LimitSearchesUser      ratelimit.Limit `key:"limit_searches_user" reload:"true" default:"1200/1m" help:"Searches, descriptions and solves of Conda packages by one user, for interactive use; the solves of container requests do not count. 0: no limit."`
	LimitSearchesAnonymous ratelimit.Limit `key:"limit_searches_anonymous" reload:"true" default:"300/1m,3000/1h" help:"Likewise by one address without a user. 0: no limit."`

	LimitPlatform ratelimit.Limit `key:"limit_platform" reload:"true" default:"20/1s,72000/1h" help:"Calls of the platform's REST API by one user, with all their access tokens and sessions. 0: no limit."`

	LimitBuildsUser         ratelimit.Limit `key:"limit_builds_user" reload:"true" default:"100/1h" help:"Builds that one user may start. 0: no limit."`
	LimitBuildsOrganization ratelimit.Limit `key:"limit_builds_organization" reload:"true" default:"0" help:"Builds that all users and robots together may start in the workspaces of one organisation, in addition to their own limits; see also slipway limits. 0: no limit."`
	LimitBuildsAnonymous    ratelimit.Limit `key:"limit_builds_anonymous" reload:"true" default:"25/24h" help:"Builds that one address without a user may start. 0: no limit. Unless it is set explicitly, a process with all roles that only its own machine can reach has no limit."`

	StreamsClient     int `key:"streams_client" default:"100" help:"Logs, event streams and downloads of Singularity images that one address may have open at a time (one IPv6 /64). 0: no limit."`
	StreamsTotal      int `key:"streams_total" default:"4000" help:"Likewise of all clients of one process. 0: no limit."`
	ConnectionsClient int `key:"connections_client" default:"2000" help:"Connections that one address (one IPv6 /64) may have open at a time; trusted_proxies may have any number. 0: no limit."`

	BuildRunningUser      int `key:"build_running_user" default:"0" help:"Builds of each kind that one user may have running at a time; further ones wait. 0: no limit; the client with the fewest builds is next."`
	BuildRunningAnonymous int `key:"build_running_anonymous" default:"2" help:"Likewise of one address without a user. 0: all slots but one. If there are several slots, a quarter of them and at least one is reserved for users, unless only its own machine can reach the server."`

	BuildRepository       string        `group:"Builds" key:"build_repository" common:"true" help:"Where built images are pushed, <registry>/<path>; its login is in registry_auth_file. Empty: the image store inside this process, which plays all roles."`
	Keep                  string        `key:"keep" help:"Who may keep images of Conda packages for ever, under public names in the catalog: users, all (also clients without an access token) or off. Their pulls need no login. Empty: users, and off without anonymous_access."`
	KeepPackages          bool          `key:"keep_packages" default:"false" help:"Whether the packages of kept images are stored in the same repository, so that the images can be made again after a channel has deleted a package. They need about as much space again. Set it for the role container; it applies to images that are kept afterwards."`
	BuildkitAddr          []string      `key:"buildkit_addr" help:"BuildKit daemons, tcp://… or unix://…; several share the work. Run them with slipwayd buildkitd, which isolates the steps of builds. Empty: the builder role starts buildkitd itself if it is installed beside slipwayd or on the PATH."`
	BuildkitCertFile      string        `key:"buildkit_cert_file" help:"Client certificate of the builder role for the daemons of buildkit_addr (mTLS)."`
	BuildkitKeyFile       string        `key:"buildkit_key_file" help:"Private key of buildkit_cert_file."`
	BuildkitCAFile        string        `key:"buildkit_ca_file" help:"Authority that signed the certificates of the daemons of buildkit_addr."`
	BuildersOnDemand      bool          `key:"builders_on_demand" default:"false" help:"An autoscaler that reads slipway_build_queue_depth starts builders when builds wait: builds are queued even while no builder is running."`
	BuildTimeoutUser      time.Duration `key:"build_timeout_user" default:"25m" help:"How long a user's build may take."`
	BuildTimeoutAnonymous time.Duration `key:"build_timeout_anonymous" default:"15m" help:"How long a build without a user may take."`
	BuildMemory           Bytes         `key:"build_memory" default:"8GiB" help:"Memory of one build's steps. 0: no limit."`
	BuildDisk             Bytes         `key:"build_disk" default:"40GiB" help:"Disk space that one build may fill. 0: no limit."`
	BuildPids             int           `key:"build_pids" default:"4096" help:"Processes of one build's steps. 0: no limit."`
	BuildCPUs             float64       `key:"build_cpus" default:"0" help:"Processors of one build's steps, e.g. 1.5; at least 0.01. 0: no limit."`
	BuildNoNewPrivileges  bool          `key:"build_no_new_privileges" default:"false" help:"Whether setuid programs have no effect in builds' steps. Steps run as root anyway, and a Dockerfile that uses sudo after USER then fails; this only adds a layer of defence."`
	BuildkitMemory        Bytes         `key:"buildkit_memory" default:"4GiB" help:"Memory of the buildkitd that the builder role starts, without the builds' steps. If it needs more, it is restarted and its builds are repeated. 0: no limit."`
	RuncPath              string        `key:"runc_path" help:"The runc that runs builds' steps, whatever its version. Empty: the first of bin/runc beside slipwayd and those on the PATH that is 1.2.8, 1.3.3, 1.4.0 or newer: steps can escape from older ones, unless their distribution has patched them."`
	BuildConcurrency      int           `key:"build_concurrency" default:"0" help:"Concurrent builds of each kind in one process. 0: as many as it has processors."`
	SifCompression        string        `key:"sif_compression" default:"zstd-3" help:"How Singularity images are compressed: zstd or gzip, and a level. gzip-6 is for clusters with kernels older than 4.14."`
	SifLayers             Bytes         `key:"sif_layers" default:"10GiB" help:"Disk space in data_dir for layers that a worker has compressed for Singularity images; beyond it the least recently used ones are removed. 0: no limit."`
	PullWait              time.Duration `key:"pull_wait" default:"15m" help:"How long a pull waits for an image that is being built."`

	CondaChannelAlias string        `group:"Conda channels" key:"conda_channel_alias" reload:"true" default:"https://conda.anaconda.org" help:"Base URL of Conda channels that requests give by name: https://HOST/PATH, or oci://HOST/PATH in a registry."`
	CondaChannels     []string      `key:"conda_channels" reload:"true" help:"Conda channels at other addresses: NAME=URL, several with commas; repeat a name to add a mirror. A private address needs egress_allow."`
	CondaDefaults     []string      `key:"conda_defaults" reload:"true" help:"The channels that the channel name defaults resolves to: names or URLs, several with commas, e.g. https://repo.anaconda.com/pkgs/main,https://repo.anaconda.com/pkgs/r, to which Anaconda's terms of service apply. Empty: defaults is ignored, with a note in the response and in the build's log."`
	CondaPyPIHosts    []string      `key:"conda_pypi_hosts" default:"files.pythonhosted.org" help:"Hosts that locks may take wheels of PyPI from: HOST or HOST:PORT for https, or http://HOST:PORT, several with commas. A private address needs egress_allow. Empty: locks with wheels are rejected."`
	CondaBaseImage    string        `key:"conda_base_image" help:"Base image of Conda packages if a request names none, e.g. from a registry that this service can reach. \"\": docker.io/library/ubuntu:24.04."`
	CondaMambaImage   string        `key:"conda_mamba_image" help:"Image with micromamba, for Conda packages that are installed in build steps, if a request names none. \"\": docker.io/mambaorg/micromamba:2-amazon2023."`
	CondaClientMamba  []string      `key:"conda_client_mamba_images" default:"mambaorg/micromamba" help:"Images that client libraries send as condaOpts.mambaImage when their user chose none: a request with one of them is assembled from layers, like one without an image. Several with commas; a name without a tag matches every tag. \"\": every image is the user's choice, and the packages are installed in build steps."`
	CondaClientBase   []string      `key:"conda_client_base_images" default:"ubuntu:24.04" help:"Images that client libraries send as condaOpts.baseImage when their user chose none: a request with one of them gets conda_base_image. Several with commas; a name without a tag matches every tag. \"\": every image is the user's choice."`
	CondaClientPixi   []string      `key:"conda_client_pixi_images" default:"ghcr.io/prefix-dev/pixi" help:"Images that client libraries send as pixiOpts.pixiImage when their user chose none. A request with any other is rejected, since no image of pixi is used. Several with commas; a name without a tag matches every tag."`
	CRANClient        []string      `key:"cran_client_images" default:"rocker/r-ver:4.4.1" help:"Images that client libraries send as cranOpts.rImage when their user chose none. A request with any other is rejected, since R is a Conda package. Several with commas; a name without a tag matches every tag."`
	CRANMirror        string        `key:"cran_mirror" help:"Base URL of a mirror of CRAN that build steps can reach, e.g. https://cloud.r-project.org: requests with packages.cranFallback get R packages that have no Conda package built from its sources. Empty: such requests are rejected."`
	CondaMinAge       time.Duration `key:"conda_min_age" default:"0s" help:"How old a Conda package must be to be used in a solution, by the timestamp of its record, e.g. 168h; requests can make no exception. 0s means any age."`
	CondaRefresh      time.Duration `key:"conda_refresh" default:"30m" help:"How long the package list of a Conda channel is used before it is refreshed in the background; a channel may set a longer time."`
	CondaHistory      time.Duration `key:"conda_history" default:"2160h" help:"How long the changes of package lists of Conda channels are kept, so that asOf in requests uses the lists as they were. The disk space counts towards conda_index_size; conda-forge takes less than 1% of its list for a day. 0s: no changes are kept, and asOf excludes packages by their timestamps."`
	CondaIndexSize    Bytes         `key:"conda_index_size" default:"10GiB" help:"Disk space in data_dir for the package lists of Conda channels and their history. Half of it is for channels that are neither in conda_channels nor well known, and a quarter of that for those of one client; beyond it the least recently used lists are removed. 0: no limit."`
	CondaLayers       Bytes         `key:"conda_layers" default:"20GiB" help:"Disk space in data_dir for the layers that a worker has built of Conda packages; beyond it the least recently used ones are removed. 0: no limit."`
	VerifyRebuild     Share         `key:"verify_rebuild" default:"0" help:"Share of images whose Conda packages become layers, such as 5%, that another worker builds again without stored layers and without pushing anything. A difference raises an alarm with both records: see slipwayd rebuilds. Needs at least two workers. Set it for the build role."`
	CondaLayerMemory  time.Duration `key:"conda_layer_memory" default:"720h" help:"How long workers reuse a layer of a Conda package that another worker has built and pushed to the registry. To stop the use of one worker's layers, run slipwayd workers revoke."`
	CondaLockTTL      time.Duration `key:"conda_lock_ttl" default:"720h" help:"How long the same request for Conda packages resolves to the same packages, and so to the same image; then it is solved again. 0: forever."`

	PolicyMode       string   `group:"Rules of the operator" key:"policy_mode" default:"enforce" help:"What happens to a request that violates one of the rules below or conda_min_age: enforce refuses it, and warn only reports it in the response, the log and slipway_policy_violations_total. Set the rules and the mode alike for the roles container, conda, registry and builder."`
	PolicyRegistries []string `key:"policy_registries" help:"Registries that images may be read from: REGISTRY or REGISTRY/PATH, several with commas, e.g. quay.io,docker.io/library. The default images of this server are always allowed. Empty: all registries."`
	PolicyChannels   []string `key:"policy_channels" help:"Conda channels that packages may be installed from: names or URLs, several with commas. pypi and cran allow what pip installs from PyPI, and R packages that are built from source. Empty: all channels."`
	PolicyLicenses   []string `key:"policy_licenses_refused" help:"Licenses of Conda packages that are refused, several with commas: SPDX identifiers such as AGPL-3.0-only, the beginning of some such as AGPL-*, and UNKNOWN for packages without an SPDX license. Empty: none."`
	PolicySignatures []string `key:"policy_signatures" help:"Images that must be signed with cosign: PLACE=FILE, several with commas, e.g. quay.io/lab=/etc/slipway/lab.pub. PLACE is a registry, REGISTRY/PATH, or * for all images but the default images of this server; the longest one that matches applies. FILE has the public keys, ECDSA P-256 as PEM. Empty: none."`

	ScanDatabase        string        `group:"Scans for vulnerabilities" key:"scan_database" help:"Data about known vulnerabilities in the format of OSV, for scans of images: the absolute path of a folder with ECOSYSTEM/all.zip or ECOSYSTEM.zip, which is read again when a file changes, or a base URL such as https://osv-vulnerabilities.storage.googleapis.com. ECOSYSTEM is Debian, Ubuntu, Alpine, PyPI, CRAN, Bioconductor, npm, Go or Bitnami; missing ones are left out. Conda packages need Debian, PyPI and Bitnami. Replace files in a folder by renaming complete ones. Empty: images are not scanned."`
	ScanDatabaseRefresh time.Duration `key:"scan_database_refresh" default:"24h" help:"How often the inspect role looks for new data at the URL of scan_database."`
	ScanVEX             []string      `key:"scan_vex" help:"Files with OpenVEX documents that apply to the scans of all images, several with commas: findings with the status not_affected or fixed do not count. They are read again when they change."`

	TokenTTL         time.Duration `group:"Names, caches and memory" key:"token_ttl" default:"36h" help:"How long the image name that a request returns can be pulled."`
	RequestRetention time.Duration `key:"request_retention" default:"2160h" help:"How long a request can be described after its name expired. Administrators can set a shorter time for an organisation (slipway limits set … requestDays), which the role platform compares with this setting. 0: forever."`
	LayerCache       Bytes         `key:"layer_cache" default:"1GiB" help:"Disk space in data_dir for added layers that this process serves."`
	BlobCache        string        `key:"blob_cache" help:"Cache of proxied blobs by repository and digest, including blobs for which a registry redirects clients. Before each use the registry must confirm that the login may read the blob. A folder of this process alone, or a bucket that processes share: s3://BUCKET/PREFIX?region=REGION&endpoint=https://HOST&public_endpoint=https://HOST. Clients are sent to the bucket with a URL that is signed for 5 minutes, so they must be able to reach it: at public_endpoint, else at endpoint, else at AWS in the region. Empty: no cache."`
	BlobCacheSize    Bytes         `key:"blob_cache_size" default:"10GiB" help:"Space for blob_cache; beyond it the least recently used blobs are removed, in a bucket down to three quarters of it, every 5 minutes. Blobs larger than a quarter of it are not cached."`
	BlobCacheLogin   string        `key:"blob_cache_credentials_file" help:"The keys of the bucket of blob_cache, in AWS's format: [default], aws_access_key_id = …, aws_secret_access_key = …; read again when it changes. Empty: AWS's usual sources (AWS_ACCESS_KEY_ID and the like, its files, the role of the pod, the container or the machine)."`
	UpstreamCache    bool          `key:"upstream_cache" default:"false" help:"Keep the manifests and blobs of other registries in blob_cache, and what their tags pointed at, so that nothing is fetched twice, a pull by digest asks no registry, and what is known is served while a registry is unavailable or limits requests. What was read without a login is kept for everyone; what was read with a login, for requests with the same login. Requests of users without a login of their own then use registry_auth_file. Needs blob_cache; where roles are apart, only a bucket serves container requests too."`
	UpstreamAuth     time.Duration `key:"upstream_cache_auth" default:"1h" help:"How long what upstream_cache keeps is served to a login without asking the registry again whether the login may read it. 0: it is always asked. At most 24h."`
	ImageCache       Bytes         `key:"image_cache" default:"32MiB" help:"Memory for manifests and image configs that this process serves."`
	TagFreshness     time.Duration `key:"tag_freshness" default:"0s" help:"How long the digest of a tag is cached, for each login and repository. 0: every pull of a tag queries the registry. At most 5m."`
	CondaSolveWait   time.Duration `key:"conda_solve_wait" default:"2s" help:"How long a container request for Conda packages waits to be solved, so that unsatisfiable requests are rejected immediately. A request that takes longer, or that comes while the solver is busy, is queued and solved before its build. 0: every request is."`
	LayerStore       Bytes         `key:"layer_store" default:"10GiB" help:"Space in the database for layers in requests, and as much again for build contexts. 0: no limit."`
	TokenMemory      Bytes         `key:"token_memory" default:"128MiB" help:"Memory for names that can be pulled, in the Redis inside this process; what does not fit is read from the database. 0: no limit."`
	MemoryLimit      Bytes         `key:"memory_limit" default:"0" help:"Memory that this process may use, without builds: near it large requests fail with 503. 0: GOMEMLIMIT if set, else the limit of the control group."`
	BodyMemory       Bytes         `key:"body_memory" default:"0" help:"Memory for request bodies larger than 1 MiB and their copies while they are handled. Further requests wait, then fail with 503. Smaller bodies have a quarter of it in addition. 0: 256 MiB, or a quarter of memory_limit if that is less."`
	DrainDelay       time.Duration `group:"Stops and logs" key:"drain_delay" default:"0s" help:"After SIGTERM: how long to continue accepting connections until load balancers react. Several pods: 5s."`
	DrainTimeout     time.Duration `key:"drain_timeout" default:"5m" help:"After SIGTERM: how long running pulls may take to finish."`
	DrainBuilds      time.Duration `key:"drain_builds" default:"20s" help:"After SIGTERM: how long running builds may take to finish. Unfinished ones are returned to the queue, and the next worker repeats them; BuildKit has cached the steps that ended."`
	LogLevel         string        `key:"log_level" reload:"true" common:"true" default:"info" help:"debug, info, warn or error."`
	LogFormat        string        `key:"log_format" help:"text or json. Empty: text on a terminal, json elsewhere."`

	// Given lists the keys of the settings that were set explicitly, even to their default.
	Given []string
}
