package bucket

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// A keyProvider provides keys from a file or from AWS's environment: variables, AWS's own
// files, and the roles of a pod, a container or a machine. Without keys it returns an
// error, so that no anonymous requests are sent. Errors do not contain the file's content.
type keyProvider struct {
	file string // if "", the keys are from the environment

	mu      sync.Mutex
	from    credentials.Provider // the source of the current keys
	read    time.Time            // the file's modification time when it was read
	checked time.Time            // when the modification time was last compared
}

// checkInterval is the interval between checks of the file's modification time.
const checkInterval = 10 * time.Second

var _ credentials.Provider = (*keyProvider)(nil)

// RetrieveWithCredContext implements credentials.Provider.
func (l *keyProvider) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != "" {
		return l.fromFile(cc)
	}
	for _, p := range []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}} {
		v, err := p.RetrieveWithCredContext(cc)
		if err == nil && v.AccessKeyID != "" && v.SecretAccessKey != "" {
			l.from = p
			return v, nil
		}
	}
	return credentials.Value{}, errors.New("no keys were found; set blob_cache_credentials_file or AWS's environment variables")
}

func (l *keyProvider) fromFile(cc *credentials.CredContext) (credentials.Value, error) {
	info, err := os.Stat(l.file)
	if err != nil {
		return credentials.Value{}, err
	}
	p := &credentials.FileAWSCredentials{Filename: l.file}
	v, err := p.RetrieveWithCredContext(cc)
	if err != nil || v.AccessKeyID == "" || v.SecretAccessKey == "" {
		return credentials.Value{}, errors.New("blob_cache_credentials_file has no aws_access_key_id and aws_secret_access_key for the profile")
	}
	l.from, l.read, l.checked = p, info.ModTime(), time.Now()
	return v, nil
}

// Retrieve implements credentials.Provider.
func (l *keyProvider) Retrieve() (credentials.Value, error) { return l.RetrieveWithCredContext(nil) }

// IsExpired implements credentials.Provider. Keys from a file expire when the file changes.
func (l *keyProvider) IsExpired() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.from == nil || l.from.IsExpired() {
		return true
	}
	if l.file == "" || time.Since(l.checked) < checkInterval {
		return false
	}
	l.checked = time.Now()
	info, err := os.Stat(l.file)
	return err == nil && !info.ModTime().Equal(l.read)
}
