package bucket

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
)

// scheme is the prefix of bucket addresses.
const scheme = "s3://"

// IsAddress reports whether a setting is meant as the address of a bucket.
func IsAddress(text string) bool { return strings.HasPrefix(text, scheme) }

// An Address is the location of objects in a bucket.
type Address struct {
	// Bucket is the name of the bucket. Prefix is the prefix of object names: "" or "path/".
	Bucket, Prefix string
	// Region is the region that requests are signed for. If "", it is taken from the
	// environment.
	Region string
	// Endpoint is the server, http(s)://host[:port]. If "", it is that of AWS in the region.
	Endpoint string
	// PublicEndpoint is the server as seen by clients. If "", it is Endpoint.
	PublicEndpoint string
}

var (
	bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	prefixPath = regexp.MustCompile(`^[A-Za-z0-9!_.*'()-]+(/[A-Za-z0-9!_.*'()-]+)*$`)
	regionName = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
)

// Parse parses s3://BUCKET[/PREFIX][?region=…&endpoint=https://…&public_endpoint=https://…].
// Errors do not quote the text, which may contain a key by mistake.
func Parse(text string) (Address, error) {
	u, err := url.Parse(text)
	if err != nil || !IsAddress(text) {
		return Address{}, errors.New("must be s3://BUCKET/PREFIX?region=REGION&endpoint=https://HOST")
	}
	if u.User != nil {
		return Address{}, errors.New("must not contain keys; set blob_cache_credentials_file or AWS's environment variables instead")
	}
	a := Address{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/")}
	if !bucketName.MatchString(a.Bucket) {
		return Address{}, errors.New("has an invalid bucket name: it must be 3 to 63 of a-z, 0-9, . and -")
	}
	if a.Prefix != "" {
		if !prefixPath.MatchString(a.Prefix) || len(a.Prefix) > 512 || strings.Contains("/"+a.Prefix+"/", "/../") || strings.Contains("/"+a.Prefix+"/", "/./") {
			return Address{}, errors.New("has an invalid prefix: it may have letters, digits, / and !_.*'()-")
		}
		a.Prefix += "/"
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" {
		return Address{}, errors.New("has an invalid query")
	}
	for key, values := range query {
		if err := a.set(key, values); err != nil {
			return Address{}, err
		}
	}
	return a, nil
}

func (a *Address) set(key string, values []string) error {
	if len(values) != 1 {
		return errors.New("has a repeated parameter")
	}
	v := values[0]
	switch key {
	case "region":
		a.Region = v
		if !regionName.MatchString(v) {
			return errors.New("has an invalid region: it must be of the form eu-west-1")
		}
		return nil
	case "endpoint":
		a.Endpoint = v
	case "public_endpoint":
		a.PublicEndpoint = v
	default:
		return errors.New("has an unknown parameter: known are region, endpoint and public_endpoint")
	}
	u, err := url.Parse(v)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("has an invalid %[1]s: it must be %[1]s=https://HOST[:PORT]", key)
	}
	return nil
}

// region returns the region that requests are signed for.
func (a Address) region() string {
	for _, r := range []string{a.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")} {
		if r != "" {
			return r
		}
	}
	return "us-east-1"
}

// endpoint returns the server that requests are sent to.
func (a Address) endpoint() string {
	if a.Endpoint != "" {
		return a.Endpoint
	}
	return "https://s3." + a.region() + ".amazonaws.com"
}

// String returns the address without its parameters.
func (a Address) String() string { return scheme + a.Bucket + "/" + a.Prefix }
