package bucket

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
)

// scheme begins the address of a bucket.
const scheme = "s3://"

// IsAddress says whether a text is meant as the address of a bucket.
func IsAddress(text string) bool { return strings.HasPrefix(text, scheme) }

// Address says where a bucket is.
type Address struct {
	// Bucket is its name, Prefix what the names of our objects begin with: "" or "path/".
	Bucket, Prefix string
	// Region is what requests are signed for; "" is what the environment says.
	Region string
	// Endpoint is the server, http(s)://host[:port]; "" is that of AWS in the region.
	Endpoint string
	// PublicEndpoint is the server as clients reach it; "" is Endpoint.
	PublicEndpoint string
}

var (
	bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	prefixPath = regexp.MustCompile(`^[A-Za-z0-9!_.*'()-]+(/[A-Za-z0-9!_.*'()-]+)*$`)
	regionName = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
)

// Parse reads s3://BUCKET[/PREFIX][?region=…&endpoint=https://…&public_endpoint=https://…].
// An error does not repeat the text, in which somebody may have put a key.
func Parse(text string) (Address, error) {
	u, err := url.Parse(text)
	if err != nil || !IsAddress(text) {
		return Address{}, errors.New("must be s3://BUCKET/PREFIX?region=REGION&endpoint=https://HOST")
	}
	if u.User != nil {
		return Address{}, errors.New("must hold no keys: they are in blob_cache_credentials_file, or in AWS's environment")
	}
	a := Address{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/")}
	if !bucketName.MatchString(a.Bucket) {
		return Address{}, errors.New("names no bucket: 3 to 63 of a-z, 0-9, . and -")
	}
	if a.Prefix != "" {
		if !prefixPath.MatchString(a.Prefix) || len(a.Prefix) > 512 || strings.Contains("/"+a.Prefix+"/", "/../") || strings.Contains("/"+a.Prefix+"/", "/./") {
			return Address{}, errors.New("has a prefix of other than letters, digits, / and !_.*'()-")
		}
		a.Prefix += "/"
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" {
		return Address{}, errors.New("ends in something that is no query")
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
		return errors.New("says the same twice")
	}
	v := values[0]
	switch key {
	case "region":
		a.Region = v
		if !regionName.MatchString(v) {
			return errors.New("names no region, e.g. eu-west-1")
		}
		return nil
	case "endpoint":
		a.Endpoint = v
	case "public_endpoint":
		a.PublicEndpoint = v
	default:
		return errors.New("may say region, endpoint and public_endpoint")
	}
	u, err := url.Parse(v)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("must say %s=https://HOST[:PORT]", key)
	}
	return nil
}

// region is what requests are signed for.
func (a Address) region() string {
	for _, r := range []string{a.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")} {
		if r != "" {
			return r
		}
	}
	return "us-east-1"
}

// endpoint is the server that requests go to.
func (a Address) endpoint() string {
	if a.Endpoint != "" {
		return a.Endpoint
	}
	return "https://s3." + a.region() + ".amazonaws.com"
}

// String is the bucket and the prefix.
func (a Address) String() string { return scheme + a.Bucket + "/" + a.Prefix }
