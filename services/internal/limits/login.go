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
	// SignIns is how many sign-ins, at the provider or with a code on another machine,
	// one client may begin in LoginWindow.
	SignIns = 60
	// DeviceLife is how long a program that shows a code waits for somebody to enter it,
	// DevicesWaiting how many wait at a time, and DevicesClient how many of one client may
	// begin to in that time.
	DeviceLife     = 15 * time.Minute
	DevicesWaiting = 10_000
	DevicesClient  = 30
	// DeviceTries is how many codes a user may enter in LoginWindow.
	DeviceTries = 10
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
			What:  "sign-ins at the OpenID Connect provider, or with a code that is entered on another machine",
			Bound: fmt.Sprintf("%d in %s per client", SignIns, LoginWindow),
			Why:   "each writes a row and may ask the provider; many people may come from one address",
		},
		{
			What: "programs that wait for their code to be entered", Bound: fmt.Sprintf("%d, each for %d minutes; %d per client", DevicesWaiting, DeviceLife/time.Minute, DevicesClient),
			Why: "each has a row, and nobody is known yet; the fewer wait, the fewer codes there are to find, and no client takes the places of all",
		},
		{What: "codes that a user enters", Bound: fmt.Sprintf("%d in %s", DeviceTries, LoginWindow), Why: "nobody finds another's of 34 bits by trying"},
		{What: "logins compared at a time", Bound: fmt.Sprintf("1 per process, %d wait", LoginsWaiting), Why: "guesses from many addresses take one core at most"},
	}
}
