package limits

import (
	"fmt"
	"time"
)

// What logins with name and password (operators, metrics accounts) may cost.
const (
	// LoginPassword is the longest password in bytes: bcrypt reads no more.
	LoginPassword = 72
	// LoginName is the longest name in bytes, as htpasswd has it.
	LoginName = 255
	// LoginsClient is how many logins may fail from one client in LoginWindow.
	LoginsClient = 10
	// LoginsName is how many may fail for one name, from all clients: higher, so that
	// one client cannot lock an operator out.
	LoginsName = 100
	// LoginWindow is how long a failed login counts.
	LoginWindow = time.Minute
	// LoginsWaiting is how many logins may wait while one is compared.
	LoginsWaiting = 16
	// SignIns is how many sign-ins at the provider one client may begin in
	// LoginWindow.
	SignIns = 60
	// LoginsKnown is how many clients and names are counted at a time.
	LoginsKnown = 4096
)

// loginRows bound what people without a token may try.
func loginRows() []Row {
	return []Row{
		{What: "name and password of an account", Bound: fmt.Sprintf("%d and %d bytes", LoginName, LoginPassword), Why: "bcrypt reads no more of a password"},
		{
			What:  "failed logins with name and password",
			Bound: fmt.Sprintf("%d in %s per client, %d per name", LoginsClient, LoginWindow, LoginsName),
			Why:   "each costs 60 ms of CPU, on purpose; one that has passed before is not compared again",
		},
		{
			What:  "sign-ins at the OpenID Connect provider",
			Bound: fmt.Sprintf("%d in %s per client", SignIns, LoginWindow),
			Why:   "each writes a row and may ask the provider; many people may come from one address",
		},
		{What: "logins compared at a time", Bound: fmt.Sprintf("1 per process, %d wait", LoginsWaiting), Why: "guesses from many addresses take one core at most"},
	}
}
