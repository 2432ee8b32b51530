// Package config holds every setting of the server in one struct. A value comes
// from a flag, else from the environment, else from a file, else it is the
// default; the spelling is the same everywhere: `--egress-allow`,
// `SLIPWAY_EGRESS_ALLOW`, `egress_allow`. The reference page deploy/config.md is
// made from this struct.
package config

import (
	"time"

	"slipway.dev/services/internal/ratelimit"
)

// Config is every setting. An empty URL or address means "inside this process".
// A group begins with the field that names it; what most installations set is
// common.
type Config struct {
	HTTPAddr         string `group:"Addresses" key:"http_addr" common:"true" default:"127.0.0.1:9090" help:"Where the REST API and the registry listen."`
	PlatformHTTPAddr string `key:"platform_http_addr" default:"127.0.0.1:9091" help:"Where the gateway role also offers the platform's REST API, with its paths at the root; it is under /api at http_addr, too. Empty: only there."`
	AdminAddr        string `key:"admin_addr" default:"127.0.0.1:9099" help:"Where /livez, /readyz, /metrics and pprof listen; keep it private."`
	GRPCAddr         string `key:"grpc_addr" default:"127.0.0.1:9095" help:"Where this process offers its gRPC services when it plays only some roles. Other than loopback needs rpc_cert_file or rpc_secret_file."`
	PublicURL        string `key:"public_url" common:"true" help:"The address that clients use; its host goes into the names that requests return. Empty: where http_addr listens, by the name of localhost unless that is one address of the machine."`
	DataDir          string `group:"Data" key:"data_dir" common:"true" default:"./data" help:"Folder for everything that is kept on this machine's disk."`

	StoreAddr string `key:"store_addr" default:"127.0.0.1:9092" help:"Where the embedded image store listens for the process's own use; its images are pulled through http_addr. Its address goes into stored names, so keep it."`

	StoreKeep time.Duration `key:"store_keep" default:"720h" help:"How long the embedded image store keeps an image that nobody uses: asks for, or pulls. What a name that works may need stays in any case. 0: for ever."`
	StoreSize Bytes         `key:"store_size" default:"0" help:"Disk space for the images of the embedded store; beyond it those go that were used longest ago and that no name needs. 0: no limit."`

	DatabaseURL string `group:"Stores" key:"database_url" common:"true" secret:"true" help:"sqlite:PATH or postgres://… Empty: SQLite in data_dir."`
	NATSURL     string `key:"nats_url" secret:"true" help:"nats://… Empty: NATS inside this process."`
	RedisURL    string `key:"redis_url" secret:"true" help:"redis://…, redis+sentinel://…/MASTER or redis+cluster://… Empty: Redis inside this process, in memory only."`

	BuildAddr     string `group:"Roles of other processes" key:"build_addr" help:"The build role, when another process plays it: host:port or dns:///host:port."`
	CondaAddr     string `key:"conda_addr" help:"The conda role, likewise; where there is none, no packages are found or locked."`
	ContainerAddr string `key:"container_addr" help:"The container role, likewise."`
	InspectAddr   string `key:"inspect_addr" help:"The inspect role, likewise."`
	MetricsAddr   string `key:"metrics_addr" help:"The metrics role, likewise; where there is none, no counts are shown."`
	PlatformAddr  string `key:"platform_addr" help:"The platform role, likewise."`

	TLSCertFile   string `group:"Certificates" key:"tls_cert_file" help:"Certificate for HTTPS at http_addr and platform_http_addr; read again when it changes. Empty: plain HTTP, for an ingress that ends TLS."`
	TLSKeyFile    string `key:"tls_key_file" help:"Private key of tls_cert_file."`
	RPCCertFile   string `key:"rpc_cert_file" help:"Certificate that this process shows to other roles, both as server and as client (mTLS). As a client it speaks for the roles that it names: a URI spiffe://slipway/ROLE for each."`
	RPCKeyFile    string `key:"rpc_key_file" help:"Private key of rpc_cert_file."`
	RPCCAFile     string `key:"rpc_ca_file" help:"Authority that signed the other roles' certificates."`
	RPCSecretFile string `key:"rpc_secret_file" help:"A file with a secret that all roles share, where there are no certificates. It keeps strangers out, but a role that was taken over can then act as any other: use rpc_cert_file where that matters."`

	EgressAllow        []string `group:"Registries and other machines" key:"egress_allow" common:"true" help:"Private addresses, networks or host names that may be reached all the same; by default only public addresses are."`
	InsecureRegistries []string `key:"insecure_registries" help:"Registries (host:port) that are spoken to in plain HTTP."`
	RegistryMirrors    []string `key:"registry_mirrors" help:"Where else images of a registry are: REGISTRY=HOST[:PORT][/PATH], several with commas, e.g. docker.io=mirror.example.org/dockerhub. Mirrors are asked first, in order and without a login, for what is read; the registry itself for what they lack, and while they are away. Everyone who can reach the service can read what they can read. A private address needs egress_allow."`
	RegistryAuthFile   string   `key:"registry_auth_file" help:"Service credentials for registries, in the format of docker's config.json; keys are hosts or host/path. Everyone who can reach the service can read what they can read."`
	OperatorAccounts   string   `group:"Operators and counts" key:"operator_accounts_file" help:"Accounts (htpasswd, bcrypt) that may call DELETE /container-token/{token}. Empty: nobody, the call answers 404."`
	MetricsAccounts    string   `key:"metrics_accounts_file" help:"Accounts (htpasswd, bcrypt) that may read /v1alpha2/metrics beside the platform's administrator. Empty: nobody else may."`
	CountPulls         bool     `key:"count_pulls" default:"true" help:"Whether pulls are noted and counted."`
	FilesystemPrefix   string   `key:"filesystem_layer_prefix" help:"What the URL of a file system client's layer begins with; pulls of images with such a layer are counted as filesystem pulls. Empty: none are."`
	TrustedProxies     []string `key:"trusted_proxies" help:"Addresses or networks of proxies whose X-Forwarded-For is trusted."`

	PlatformURL          string        `group:"Platform and users" key:"platform_url" help:"The platform's public address; container requests that name it, or no platform at all, are checked by the platform role. Empty: where platform_http_addr listens, like public_url, or else public_url/api."`
	PlatformEndpoints    []string      `key:"platform_endpoints" help:"Base addresses of other platforms that are trusted to identify their users; container requests may name them as platformEndpoint."`
	PlatformAuthFile     string        `key:"platform_auth_file" help:"Operator accounts at platform_endpoints, with which this one reads its users' credentials there, in the format of docker's config.json; keys are hosts or host/path."`
	OIDCIssuer           string        `key:"oidc_issuer" help:"An OpenID Connect provider at which users may sign in, who are found by their verified e-mail address; it sends them back to platform_url/oauth/callback. Empty: with an access token only."`
	OIDCClientID         string        `key:"oidc_client_id" help:"What the provider calls this platform."`
	OIDCClientSecretFile string        `key:"oidc_client_secret_file" help:"A file with the provider's secret for this platform. Empty: it is a public client."`
	MasterKeyFile        string        `key:"master_key_file" help:"The keys that wrap those of stored credentials (slipwayd keys). Empty: data_dir/master-key, which a process that plays all roles makes; a platform role of its own then keeps no credentials, and signs nobody in."`
	AdminEmail           string        `key:"admin_email" default:"admin@localhost" help:"E-mail address of the first user."`
	AdminTokenFile       string        `key:"admin_token_file" help:"A file that holds the first user's access token. Empty: one is made in data_dir/admin-token at the first start."`
	AdminRegistryAuth    string        `key:"admin_registry_auth_file" help:"The first user's registry credentials, in the format of docker's config.json."`
	AuditRetention       time.Duration `key:"audit_retention" default:"8760h" help:"How long it is kept who made, changed, read and deleted credentials, and who paired services. 0: for ever."`
	AnonymousAccess      bool          `key:"anonymous_access" default:"true" help:"Whether container requests without an access token are served."`

	LimitPullsUser      ratelimit.Limit `group:"Limits of callers" key:"limit_pulls_user" default:"1000/1m" help:"Image pulls of one user. 0: no limit."`
	LimitPullsAnonymous ratelimit.Limit `key:"limit_pulls_anonymous" default:"250/1h" help:"Image pulls of one address without a user. 0: no limit."`

	LimitRequestsUser      ratelimit.Limit `key:"limit_requests_user" default:"2000/1m" help:"Container requests of one user; one that stores new layers counts once more for each 256 KiB of them. 0: no limit."`
	LimitRequestsAnonymous ratelimit.Limit `key:"limit_requests_anonymous" default:"500/1h" help:"Container requests of one address without a user, likewise. 0: no limit."`

	LimitSearchesUser      ratelimit.Limit `key:"limit_searches_user" default:"1200/1m" help:"Searches, descriptions and solves of Conda packages by one user, while images are put together; the solves of container requests are not among them. 0: no limit."`
	LimitSearchesAnonymous ratelimit.Limit `key:"limit_searches_anonymous" default:"300/1m,3000/1h" help:"Likewise by one address without a user. 0: no limit."`

	LimitPlatform ratelimit.Limit `key:"limit_platform" default:"20/1s,72000/1h" help:"Calls of the platform's REST API with one access token. 0: no limit."`

	LimitBuildsUser      ratelimit.Limit `key:"limit_builds_user" default:"100/1h" help:"Builds that one user may start. 0: no limit."`
	LimitBuildsAnonymous ratelimit.Limit `key:"limit_builds_anonymous" default:"25/24h" help:"Builds that one address without a user may start. 0: no limit. While it is the default, a process with all roles that only its own machine reaches counts none."`

	StreamsClient     int `key:"streams_client" default:"100" help:"Logs, event streams and downloads of Singularity images that one address may have open at a time (one IPv6 /64). 0: no limit."`
	StreamsTotal      int `key:"streams_total" default:"4000" help:"Likewise of all clients of one process. 0: no limit."`
	ConnectionsClient int `key:"connections_client" default:"2000" help:"Connections that one address (one IPv6 /64) may have open at a time; trusted_proxies may have any number. 0: no limit."`

	BuildRunningUser      int `key:"build_running_user" default:"0" help:"Builds of each kind that one user may have running at a time; further ones wait. 0: no limit but everybody's turn."`
	BuildRunningAnonymous int `key:"build_running_anonymous" default:"2" help:"Likewise of one address without a user, which never has all slots where there are several. 0: all but one."`

	BuildRepository       string        `group:"Builds" key:"build_repository" common:"true" help:"Where built images are pushed, <registry>/<path>; its login is in registry_auth_file. Empty: the image store inside this process, which plays all roles."`
	BuildkitAddr          []string      `key:"buildkit_addr" help:"BuildKit daemons, tcp://… or unix://…; several share the work. Run them with slipwayd buildkitd, which keeps the steps of builds apart. Empty: the builder role starts buildkitd itself, when it finds it beside slipwayd or on the PATH."`
	BuildkitCertFile      string        `key:"buildkit_cert_file" help:"Certificate that the builder role shows to the daemons of buildkit_addr (mTLS)."`
	BuildkitKeyFile       string        `key:"buildkit_key_file" help:"Private key of buildkit_cert_file."`
	BuildkitCAFile        string        `key:"buildkit_ca_file" help:"Authority that signed the certificates of the daemons of buildkit_addr."`
	BuildersOnDemand      bool          `key:"builders_on_demand" default:"false" help:"Builders are started when builds wait, by an autoscaler that reads slipway_build_queue_depth: builds are queued also while there is no builder at all."`
	BuildTimeoutUser      time.Duration `key:"build_timeout_user" default:"25m" help:"How long a user's build may take."`
	BuildTimeoutAnonymous time.Duration `key:"build_timeout_anonymous" default:"15m" help:"How long a build without a user may take."`
	BuildMemory           Bytes         `key:"build_memory" default:"8GiB" help:"Memory of one build's steps. 0: no limit."`
	BuildDisk             Bytes         `key:"build_disk" default:"40GiB" help:"Disk space that one build may fill. 0: no limit."`
	BuildPids             int           `key:"build_pids" default:"4096" help:"Processes of one build's steps. 0: no limit."`
	BuildCPUs             float64       `key:"build_cpus" default:"0" help:"Processors of one build's steps, e.g. 1.5; at least 0.01. 0: no limit."`
	BuildNoNewPrivileges  bool          `key:"build_no_new_privileges" default:"false" help:"Whether setuid programs have no effect in builds' steps. Steps run as root anyway, and a Dockerfile that uses sudo after USER fails then; for who wants one way less."`
	BuildkitMemory        Bytes         `key:"buildkit_memory" default:"4GiB" help:"Memory of the buildkitd that the builder role starts, without the builds' steps. It is started again when it needs more, and its builds with it. 0: no limit."`
	RuncPath              string        `key:"runc_path" help:"The runc that runs builds' steps, whatever its version. Empty: the first of bin/runc beside slipwayd and those on the PATH that is 1.2.8, 1.3.3, 1.4.0 or newer: steps can leave older ones, unless their distribution has mended them."`
	BuildConcurrency      int           `key:"build_concurrency" default:"0" help:"Builds of each kind at a time in one process. 0: as many as it has processors."`
	SifCompression        string        `key:"sif_compression" default:"zstd-3" help:"How Singularity images are compressed: zstd or gzip, and a level. gzip-6 is for clusters with kernels older than 4.14."`
	PullWait              time.Duration `key:"pull_wait" default:"15m" help:"How long a pull waits for an image that is being built."`

	CondaChannelAlias string        `group:"Conda channels" key:"conda_channel_alias" default:"https://conda.anaconda.org" help:"Where Conda channels are that are given by a name."`
	CondaChannels     []string      `key:"conda_channels" help:"Conda channels that are elsewhere: NAME=URL, several with commas; a name that comes again has a mirror. A private address needs egress_allow."`
	CondaBaseImage    string        `key:"conda_base_image" help:"Image that Conda packages are put on where a request names none, e.g. of a registry that this service can reach. \"\": docker.io/library/ubuntu:24.04."`
	CondaMambaImage   string        `key:"conda_mamba_image" help:"Image with micromamba, for Conda packages that are installed in steps, where a request names none. \"\": docker.io/mambaorg/micromamba:2-amazon2023."`
	CondaRefresh      time.Duration `key:"conda_refresh" default:"30m" help:"How long the list of packages of a Conda channel is used before the channel is asked again, in the background; a channel may say longer."`
	CondaIndexSize    Bytes         `key:"conda_index_size" default:"10GiB" help:"Disk space in data_dir for the lists of packages of Conda channels; beyond it those go that were used longest ago. 0: no limit."`
	CondaLayers       Bytes         `key:"conda_layers" default:"20GiB" help:"Disk space in data_dir for the layers that a worker has made of Conda packages; beyond it those go that were used longest ago. 0: no limit."`
	CondaLayerMemory  time.Duration `key:"conda_layer_memory" default:"720h" help:"How long workers take a layer of a Conda package from the registry, instead of making it, because another worker says that it made it. Shortened, it has all forget what is older, as after a worker was taken over."`
	CondaLockTTL      time.Duration `key:"conda_lock_ttl" default:"720h" help:"For how long the same request for Conda packages stands for the same packages, and so the same image; then it is solved again. 0: always."`

	TokenTTL         time.Duration `group:"Names, caches and memory" key:"token_ttl" default:"36h" help:"How long the name that a request answers can be pulled."`
	RequestRetention time.Duration `key:"request_retention" default:"2160h" help:"How long a request can be described after its name stopped working. 0: for ever."`
	LayerCache       Bytes         `key:"layer_cache" default:"1GiB" help:"Disk space in data_dir for added layers that this process serves."`
	BlobCache        string        `key:"blob_cache" help:"Where blobs are kept that were passed on, by repository and digest; those too that a registry would send clients elsewhere for. Before each use the registry is asked whether the login may read the blob. A folder of this process alone, or a bucket that processes share: s3://BUCKET/PREFIX?region=REGION&endpoint=https://HOST&public_endpoint=https://HOST. Clients are sent to the bucket with a URL that is signed for 5 minutes, so they have to reach it: at public_endpoint, else at endpoint, else at AWS in the region. Empty: none are kept."`
	BlobCacheSize    Bytes         `key:"blob_cache_size" default:"10GiB" help:"Space for blob_cache; beyond it those go that were used longest ago, in a bucket down to three quarters of it, every 5 minutes. No blob is kept that takes more than a quarter of it."`
	BlobCacheLogin   string        `key:"blob_cache_credentials_file" help:"The keys of the bucket of blob_cache, in AWS's format: [default], aws_access_key_id = …, aws_secret_access_key = …; read again when it changes. Empty: what AWS's environment says (AWS_ACCESS_KEY_ID and the like, its files, the role of the pod, the container or the machine)."`
	ImageCache       Bytes         `key:"image_cache" default:"32MiB" help:"Memory for manifests and image configs that this process serves."`
	TagFreshness     time.Duration `key:"tag_freshness" default:"0s" help:"How old the answer of a registry may be to what a tag points at now; it is used again for the same login and repository alone. 0: every pull of a tag asks. At most 5m."`
	CondaSolveWait   time.Duration `key:"conda_solve_wait" default:"2s" help:"How long a container request for Conda packages waits to be solved before it is queued: what cannot be is refused at once. 0: the build finds out."`
	LayerStore       Bytes         `key:"layer_store" default:"10GiB" help:"Space in the database for layers that came with requests, and as much again for build contexts. 0: no limit."`
	TokenMemory      Bytes         `key:"token_memory" default:"128MiB" help:"Memory for names that can be pulled, in the Redis inside this process; what does not fit is read from the database. 0: no limit."`
	MemoryLimit      Bytes         `key:"memory_limit" default:"0" help:"Memory that this process may take, without builds: near it large requests are answered 503. 0: what GOMEMLIMIT says, else the control group."`
	BodyMemory       Bytes         `key:"body_memory" default:"0" help:"Request bodies that are being answered, in bytes; more are answered 503, small ones last. 0: a sixteenth of memory_limit, from 32 MB to 256 MiB."`
	DrainDelay       time.Duration `group:"Stops and logs" key:"drain_delay" default:"0s" help:"After SIGTERM: how long to go on accepting while load balancers notice. Several pods: 5s."`
	DrainTimeout     time.Duration `key:"drain_timeout" default:"5m" help:"After SIGTERM: how long running pulls may take to finish."`
	LogLevel         string        `key:"log_level" common:"true" default:"info" help:"debug, info, warn or error."`
	LogFormat        string        `key:"log_format" help:"text or json. Empty: text on a terminal, json elsewhere."`
}
