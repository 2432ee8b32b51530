package limits

import (
	"fmt"
	"time"
)

// Limits of logins with name and password (operators, metrics accounts).
const (
	// LoginPassword is the maximum length of a password in bytes; bcrypt uses no more.
	LoginPassword = 72
	// LoginName is the maximum length of a name in bytes, as in htpasswd.
	LoginName = 255
	// LoginsClient is the maximum number of failed logins of one client in LoginWindow.
	LoginsClient = 10
	// LoginsName is the maximum number of failed logins for one name from all clients. It
	// is higher, so that one client cannot lock out an operator.
	LoginsName = 100
	// LoginWindow is how long a failed login counts.
	LoginWindow = time.Minute
	// LoginsWaiting is the maximum number of logins that wait while one is compared.
	LoginsWaiting = 16
	// SignIns is the maximum number of sign-ins of one client in LoginWindow, at the
	// provider or with a device code.
	SignIns = 60
	// DeviceLife is the lifetime of a device code, DevicesWaiting the maximum number of
	// unused codes, and DevicesClient the maximum number that one client may create in that
	// time.
	DeviceLife     = 15 * time.Minute
	DevicesWaiting = 10_000
	DevicesClient  = 30
	// DeviceTries is the maximum number of codes that a user may enter in LoginWindow.
	DeviceTries = 10
	// PageSignIn is the maximum size of the request that begins a session of the web page, in
	// bytes, PageToken the maximum length of its access token, and PageSession its lifetime.
	PageSignIn, PageToken = 16 << 10, 3000
	PageSession           = 12 * time.Hour
	// LoginsKnown is the maximum number of clients and names that are counted.
	LoginsKnown = 4096
)

// loginRows lists the limits of callers without a token.
func loginRows() []Row {
	return []Row{
		{What: "name and password of an account", Bound: fmt.Sprintf("%d and %d bytes", LoginName, LoginPassword), Why: "bcrypt uses no more of a password"},
		{
			What:  "failed logins with name and password",
			Bound: fmt.Sprintf("%d in %s per client, %d per name", LoginsClient, LoginWindow, LoginsName),
			Why:   "each costs 60 ms of CPU, on purpose; a login that succeeded before is not compared again",
		},
		{
			What:  "sign-ins at the OpenID Connect provider, or with a code that is entered on another machine",
			Bound: fmt.Sprintf("%d in %s per client", SignIns, LoginWindow),
			Why:   "each writes a row and may call the provider; many users may share one address",
		},
		{
			What: "programs that wait for their code to be entered", Bound: fmt.Sprintf("%d, each for %d minutes; %d per client", DevicesWaiting, DeviceLife/time.Minute, DevicesClient),
			Why: "each has a row and no user yet; fewer codes are harder to guess, and no client can use up the limit of all",
		},
		{What: "codes that a user enters", Bound: fmt.Sprintf("%d in %s", DeviceTries, LoginWindow), Why: "codes of 34 bits cannot be guessed"},
		{
			What: "sign-in on the web page; its access token; its session", Bound: fmt.Sprintf("%s; %d bytes; %d hours", size(PageSignIn), PageToken, PageSession/time.Hour),
			Why: "it has no user yet; browsers do not store longer cookies; users forget to sign out",
		},
		{What: "logins compared at a time", Bound: fmt.Sprintf("1 per process, %d wait", LoginsWaiting), Why: "guesses from many addresses use one core at most"},
	}
}
