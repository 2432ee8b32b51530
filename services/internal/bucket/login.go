package bucket

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// login has keys from a file, or from AWS's environment: variables, AWS's own files, the
// roles of a pod, a container or a machine. Without keys nothing is asked for: there are
// no anonymous requests. No error holds what is in a file.
type login struct {
	file string // "" is the environment

	mu     sync.Mutex
	from   credentials.Provider // what the keys in use are from
	read   time.Time            // the file's time when it was read
	looked time.Time
}

// lookAgain is how often the file is looked at.
const lookAgain = 10 * time.Second

var _ credentials.Provider = (*login)(nil)

// RetrieveWithCredContext implements credentials.Provider.
func (l *login) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
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
	return credentials.Value{}, errors.New("there are no keys: set blob_cache_credentials_file, or what AWS's programs read")
}

func (l *login) fromFile(cc *credentials.CredContext) (credentials.Value, error) {
	info, err := os.Stat(l.file)
	if err != nil {
		return credentials.Value{}, err
	}
	p := &credentials.FileAWSCredentials{Filename: l.file}
	v, err := p.RetrieveWithCredContext(cc)
	if err != nil || v.AccessKeyID == "" || v.SecretAccessKey == "" {
		return credentials.Value{}, errors.New("blob_cache_credentials_file holds no aws_access_key_id and aws_secret_access_key of the profile")
	}
	l.from, l.read, l.looked = p, info.ModTime(), time.Now()
	return v, nil
}

// Retrieve implements credentials.Provider.
func (l *login) Retrieve() (credentials.Value, error) { return l.RetrieveWithCredContext(nil) }

// IsExpired implements credentials.Provider: also when the file is another.
func (l *login) IsExpired() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.from == nil || l.from.IsExpired() {
		return true
	}
	if l.file == "" || time.Since(l.looked) < lookAgain {
		return false
	}
	l.looked = time.Now()
	info, err := os.Stat(l.file)
	return err == nil && !info.ModTime().Equal(l.read)
}
