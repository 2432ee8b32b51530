package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"slipway.dev/services/internal/bucket"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/policy"
	"slipway.dev/services/internal/sink"
	"slipway.dev/services/internal/upstream"
)

// Validate returns all problems that can be found without opening files or connections.
func (c *Config) Validate() error {
	return errors.Join(
		address("http_addr", c.HTTPAddr), optionalAddress("platform_http_addr", c.PlatformHTTPAddr), address("admin_addr", c.AdminAddr), address("grpc_addr", c.GRPCAddr),
		loopback("store_addr", c.StoreAddr),
		webAddress("public_url", c.PublicURL), webAddress("platform_url", c.PlatformURL), webAddresses("platform_endpoints", c.PlatformEndpoints), provider(c),
		together("tls_cert_file", c.TLSCertFile, "tls_key_file", c.TLSKeyFile),
		together("rpc_cert_file", c.RPCCertFile, "rpc_key_file", c.RPCKeyFile),
		together("rpc_cert_file", c.RPCCertFile, "rpc_ca_file", c.RPCCAFile),
		together("buildkit_cert_file", c.BuildkitCertFile, "buildkit_key_file", c.BuildkitKeyFile),
		together("buildkit_cert_file", c.BuildkitCertFile, "buildkit_ca_file", c.BuildkitCAFile),
		files(map[string]string{
			"buildkit_cert_file": c.BuildkitCertFile, "buildkit_key_file": c.BuildkitKeyFile, "buildkit_ca_file": c.BuildkitCAFile,
			"tls_cert_file": c.TLSCertFile, "tls_key_file": c.TLSKeyFile,
			"rpc_cert_file": c.RPCCertFile, "rpc_key_file": c.RPCKeyFile, "rpc_ca_file": c.RPCCAFile,
			"rpc_secret_file": c.RPCSecretFile, "registry_auth_file": c.RegistryAuthFile,
			"operator_accounts_file": c.OperatorAccounts, "master_key_file": c.MasterKeyFile, "signing_key_file": c.SigningKeyFile, "metrics_accounts_file": c.MetricsAccounts, "admin_token_file": c.AdminTokenFile,
			"admin_registry_auth_file": c.AdminRegistryAuth, "platform_auth_file": c.PlatformAuthFile,
			"blob_cache_credentials_file": c.BlobCacheLogin,
		}),
		networks("trusted_proxies", c.TrustedProxies), origins("cors_origins", c.CORSOrigins), mirrors("registry_mirrors", c),
		between("store_keep", c.StoreKeep, 0, 100*365*24*time.Hour),
		channelAddress("conda_channel_alias", c.CondaChannelAlias), optionalWebAddress("cran_mirror", c.CRANMirror), between("conda_refresh", c.CondaRefresh, time.Minute, 30*24*time.Hour), between("conda_min_age", c.CondaMinAge, 0, 3650*24*time.Hour),
		scanDatabase(c.ScanDatabase), between("scan_database_refresh", c.ScanDatabaseRefresh, limits.ScanRefresh, limits.ScanRefreshMost), existing("scan_vex", c.ScanVEX),
		keyless(c), rules(c), between("conda_history", c.CondaHistory, 0, 3650*24*time.Hour),
		between("conda_layer_memory", c.CondaLayerMemory, time.Minute, 100*365*24*time.Hour),
		between("conda_lock_ttl", c.CondaLockTTL, 0, 100*365*24*time.Hour),
		between("token_ttl", c.TokenTTL, time.Minute, 365*24*time.Hour),
		between("build_timeout_user", c.BuildTimeoutUser, time.Second, 24*time.Hour),
		between("build_timeout_anonymous", c.BuildTimeoutAnonymous, time.Second, 24*time.Hour),
		between("tag_freshness", c.TagFreshness, 0, 5*time.Minute),
		blobCache(c), between("upstream_cache_auth", c.UpstreamAuth, 0, 24*time.Hour), between("pull_wait", c.PullWait, 0, 24*time.Hour),
		between("conda_solve_wait", c.CondaSolveWait, 0, 30*time.Second),
		atLeast0(map[string]int{"build_pids": c.BuildPids, "build_concurrency": c.BuildConcurrency, "build_running_user": c.BuildRunningUser, "build_running_anonymous": c.BuildRunningAnonymous,
			"streams_client": c.StreamsClient, "streams_total": c.StreamsTotal, "connections_client": c.ConnectionsClient}),
		processors("build_cpus", c.BuildCPUs),
		builders(c.BuildkitAddr),
		compression("sif_compression", c.SifCompression),
		repository("build_repository", c.BuildRepository), keep(c.Keep),
		auditSink(c.AuditSink),
		logLevel(c.LogLevel), logFormat(c.LogFormat),
	)
}

// keep checks who may keep images.
func keep(who string) error {
	if !slices.Contains([]string{"", "users", "all", "off"}, who) {
		return fmt.Errorf("keep must be users, all or off, not %q", who)
	}
	return nil
}

// blobCache requires a size if a location is set, since size 0 would mean no limit.
func blobCache(c *Config) error {
	if c.BlobCache != "" && c.BlobCacheSize <= 0 {
		return errors.New("blob_cache_size must be more than 0 where blob_cache is set")
	}
	if c.UpstreamCache && c.BlobCache == "" {
		return errors.New("upstream_cache needs blob_cache, a folder or a bucket")
	}
	if !bucket.IsAddress(c.BlobCache) {
		if c.BlobCacheLogin != "" {
			return errors.New("blob_cache_credentials_file goes with a blob_cache of s3://…")
		}
		return nil
	}
	if _, err := bucket.Parse(c.BlobCache); err != nil {
		return fmt.Errorf("blob_cache %w", err)
	}
	return nil
}

// Policy returns the settings of the operator's rules.
func (c *Config) Policy() policy.Settings {
	return policy.Settings{Registries: c.PolicyRegistries, Channels: c.PolicyChannels, Licenses: c.PolicyLicenses, Signatures: c.PolicySignatures, MinAge: c.CondaMinAge}
}

// rules checks the operator's rules.
func rules(c *Config) error {
	_, err := policy.Parse(c.Policy())
	problems := []error{err} // only some roles need the files
	if c.PolicyMode != "enforce" && c.PolicyMode != "warn" {
		problems = append(problems, fmt.Errorf("policy_mode must be enforce or warn, not %q", c.PolicyMode))
	}
	return errors.Join(problems...)
}

// keyless checks the settings of certificates for short-lived keys.
func keyless(c *Config) error {
	problems := []error{
		together("signing_fulcio", c.SigningFulcio, "signing_timestamp", c.SigningTimestamp),
		together("signing_fulcio", c.SigningFulcio, "signing_identity_token_file", c.SigningIdentityToken),
		together("signing_fulcio", c.SigningFulcio, "signing_trusted_root", c.SigningTrustedRoot),
		optionalWebAddress("signing_fulcio", c.SigningFulcio), optionalWebAddress("signing_timestamp", c.SigningTimestamp),
	}
	if c.SigningFulcio == "" {
		return errors.Join(problems...)
	}
	if c.SigningKeyFile != "" || c.SigningAgent != "" {
		problems = append(problems, errors.New("signing_fulcio excludes signing_key_file and signing_agent: an image is signed in one way; public keys of earlier signatures belong in signing_retired_keys"))
	}
	if c.SignSIF {
		problems = append(problems, errors.New("sign_sif requires a key file: a certificate of signing_fulcio cannot sign Singularity images"))
	}
	return errors.Join(problems...)
}

// scanDatabase requires the absolute path of a folder, or a URL.
func scanDatabase(v string) error {
	if v == "" || filepath.IsAbs(v) {
		return nil
	}
	if err := webAddress("scan_database", v); err != nil {
		return fmt.Errorf("scan_database must be the absolute path of a folder, or a URL such as https://osv-vulnerabilities.storage.googleapis.com, not %q", v)
	}
	return nil
}

// existing requires that files exist.
func existing(key string, paths []string) error {
	var problems []error
	for _, path := range paths {
		problems = append(problems, files(map[string]string{key: path}))
	}
	return errors.Join(problems...)
}

func loopback(key, v string) error {
	if err := address(key, v); err != nil {
		return err
	}
	if host, port, _ := net.SplitHostPort(v); host != "127.0.0.1" || port == "0" {
		return fmt.Errorf("%s must be 127.0.0.1 with a port, not %q", key, v)
	}
	return nil
}

// compression parses a compressor and a level, e.g. "zstd-3".
func compression(key, v string) error {
	_, _, err := parseCompression(v)
	if err != nil {
		return fmt.Errorf("%s must be zstd or gzip with a level, e.g. zstd-3 or gzip-6, not %q", key, v)
	}
	return nil
}

// Compressor returns the compressor of Singularity images, "zstd" or "gzip", and its level,
// 0 for its default. name is "" if nothing is set.
func (c *Config) Compressor() (name string, level int) {
	name, level, _ = parseCompression(c.SifCompression) // Validate has reported the error
	return name, level
}

func parseCompression(v string) (name string, level int, err error) {
	name, text, leveled := strings.Cut(v, "-")
	most, known := map[string]int{"": 0, "zstd": 22, "gzip": 9}[name]
	if leveled {
		level, err = strconv.Atoi(text)
	}
	if err != nil || !known || leveled && (level < 1 || level > most) {
		return "", 0, errors.New("unknown compression")
	}
	return name, level, nil
}

func atLeast0(values map[string]int) error {
	var problems []error
	for key, v := range values {
		if v < 0 {
			problems = append(problems, fmt.Errorf("%s must not be negative", key))
		}
	}
	return errors.Join(problems...)
}

// processors checks that a number is 0 or between 0.01, the minimum of the kernel, and 10,000.
func processors(key string, n float64) error {
	if n != 0 && (n < 0.01 || n > 10_000) {
		return fmt.Errorf("%s must be 0 or between 0.01 and 10000, not %v", key, n)
	}
	return nil
}

func builders(addrs []string) error {
	for _, a := range addrs {
		if u, err := url.Parse(a); err != nil || (u.Scheme != "tcp" && u.Scheme != "unix") {
			return fmt.Errorf("buildkit_addr must be tcp://host:port or unix:///path, not %q", a)
		}
	}
	return nil
}

func repository(key, v string) error {
	host, path, _ := strings.Cut(v, "/")
	if v != "" && (path == "" || strings.Contains(v, "://") || strings.ToLower(path) != path || strings.ContainsAny(path, ":@ ") ||
		(!strings.ContainsAny(host, ".:") && host != "localhost")) {
		return fmt.Errorf("%s must be <registry>/<path> without a scheme or a tag, not %q", key, v)
	}
	return nil
}

// mirrors rejects a mirror that contains build_repository, because every client can read
// mirrors without a login.
func mirrors(key string, c *Config) error {
	list, err := upstream.ParseMirrors(c.RegistryMirrors)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	own, path, _ := strings.Cut(c.BuildRepository, "/")
	for _, m := range list {
		if path != "" && oci.SameHost(m.Host, own) && (m.Path == "" || strings.HasPrefix(path+"/", m.Path+"/")) {
			return fmt.Errorf("%s: %s holds build_repository, which is read through names alone: give the mirror a path of its own", key, m)
		}
	}
	return nil
}

func address(key, v string) error {
	if _, _, err := net.SplitHostPort(v); err != nil {
		return fmt.Errorf("%s must be host:port, e.g. 127.0.0.1:9090, not %q", key, v)
	}
	return nil
}

func provider(c *Config) error {
	if c.OIDCIssuer == "" {
		if len(c.OIDCGroups) > 0 || len(c.OIDCAutoCreate) > 0 {
			return errors.New("oidc_groups and oidc_auto_create need oidc_issuer, the provider that users sign in at")
		}
		return together("oidc_issuer", c.OIDCIssuer, "oidc_client_id", c.OIDCClientID)
	}
	if utf8.RuneCountInString(c.OIDCName) > 64 || strings.ContainsFunc(c.OIDCName, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return errors.New("oidc_name must be a line of at most 64 characters, since it is shown on a button")
	}
	if slices.Contains(c.OIDCAutoCreate, "groups") && len(c.OIDCGroups) == 0 {
		return errors.New("oidc_auto_create: groups needs oidc_groups, which lists them")
	}
	return errors.Join(autoCreate(c.OIDCAutoCreate), webAddress("oidc_issuer", c.OIDCIssuer), together("oidc_issuer", c.OIDCIssuer, "oidc_client_id", c.OIDCClientID))
}

// autoCreate returns an error for an entry of oidc_auto_create that is neither a domain with a dot
// nor a keyword, such as a misspelled keyword.
func autoCreate(entries []string) error {
	for _, e := range entries {
		domain := strings.TrimPrefix(e, "invitations@")
		if e != "groups" && e != "invitations" && (!strings.Contains(domain, ".") || strings.Contains(domain, "@")) {
			return fmt.Errorf("oidc_auto_create: %q is not a domain such as example.org, nor groups, invitations or invitations@example.org", e)
		}
	}
	return nil
}

// origins checks web origins: scheme, host and port as browsers write them.
func origins(key string, values []string) error {
	if len(values) > limits.Origins {
		return fmt.Errorf("%s may have %d origins, not %d", key, limits.Origins, len(values))
	}
	for _, v := range values {
		u, err := url.Parse(v)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || v != u.Scheme+"://"+strings.ToLower(u.Host) {
			return fmt.Errorf("%s must be origins such as https://portal.example.org, without a path and in lower case, not %q", key, v)
		}
		if u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443" {
			return fmt.Errorf("%s: omit the default port in %q, as browsers do", key, v)
		}
		if u.Scheme == "http" && !isLoopback(u.Hostname()) {
			return fmt.Errorf("%s must be https unless it is a loopback address: %q", key, v)
		}
	}
	return nil
}

func webAddresses(key string, values []string) error {
	var problems []error
	for _, v := range values {
		problems = append(problems, webAddress(key, v))
	}
	return errors.Join(problems...)
}

func optionalAddress(key, v string) error {
	if v == "" {
		return nil
	}
	return address(key, v)
}

func webAddress(key, v string) error {
	u, err := url.Parse(v)
	if err != nil || u.Host == "" || u.User != nil || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("%s must be http(s)://host, not %q", key, v)
	}
	if key == "public_url" && strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("%s must have no path, because image names contain only its host: %q", key, v)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%s must have no query and no fragment: %q", key, v)
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) {
		return fmt.Errorf("%s must be https unless it is a loopback address: %q", key, v)
	}
	return nil
}

// channelAddress is like webAddress, but also allows oci://host/path. The role conda checks the
// rest of the address.
func channelAddress(key, v string) error {
	if u, err := url.Parse(v); err == nil && u.Scheme == "oci" && u.Host != "" && u.User == nil {
		return nil
	}
	return webAddress(key, v)
}

func optionalWebAddress(key, v string) error {
	if v == "" {
		return nil
	}
	return webAddress(key, v)
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && ip.IsLoopback())
}

// IsLoopback reports whether a listening address is only reachable from this machine.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && isLoopback(host)
}

func together(k1, v1, k2, v2 string) error {
	if (v1 == "") != (v2 == "") {
		return fmt.Errorf("%s and %s go together", k1, k2)
	}
	return nil
}

func files(paths map[string]string) error {
	var problems []error
	for key, path := range paths {
		if path == "" {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", key, err))
		}
	}
	return errors.Join(problems...)
}

func networks(key string, values []string) error {
	_, err := ParseNetworks(values)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// ParseNetworks parses a list of addresses and CIDR networks.
func ParseNetworks(values []string) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, 0, len(values))
	for _, v := range values {
		if p, err := netip.ParsePrefix(v); err == nil {
			out = append(out, p.Masked())
			continue
		}
		ip, err := netip.ParseAddr(v)
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/8", v)
		}
		out = append(out, netip.PrefixFrom(ip, ip.BitLen()))
	}
	return out, nil
}

func between(key string, v, low, high time.Duration) error {
	if v < low || v > high {
		return fmt.Errorf("%s must be between %s and %s, not %s", key, low, high, v)
	}
	return nil
}

func auditSink(v string) error {
	if v == "" {
		return nil
	}
	if _, err := sink.Parse(v); err != nil {
		return fmt.Errorf("audit_sink %w", err)
	}
	return nil
}

func logLevel(v string) error {
	var l slog.Level
	if err := l.UnmarshalText([]byte(v)); err != nil {
		return fmt.Errorf("log_level must be debug, info, warn or error, not %q", v)
	}
	return nil
}

func logFormat(v string) error {
	if v != "" && v != "text" && v != "json" {
		return fmt.Errorf("log_format must be text or json, not %q", v)
	}
	return nil
}
