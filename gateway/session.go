package gateway

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// The session of the web page is a cookie with an access token, which scripts cannot read. It is not part of the
// API: programs send the token themselves. The gateway turns the cookie into the header Authorization, and only
// for requests with pageHeader, which pages of other origins cannot send: it requires a preflight request that
// no response of this server allows.

const (
	// SessionPath is where the page begins and ends its session.
	SessionPath = "/session"
	// MaxSession is the largest request body that begins a session, in bytes.
	MaxSession = 16 << 10
	// SessionLife is the lifetime of a session, and of the access token that is created for it.
	SessionLife = 12 * time.Hour
	// MaxSessionToken is the maximum length of a session's access token in bytes. Browsers store no cookie of
	// more than 4096 bytes.
	MaxSessionToken = 3000
	// maxOrigin is the maximum length of the page's origin in bytes: a scheme, a DNS name, and a port.
	maxOrigin = 300

	// pageHeader is the header with which the page sends its own origin.
	pageHeader = "Slipway-Page"
	// pageClient is the name under which the page signs in at the OIDC provider.
	pageClient = "web page"
)

// sessions serves SessionPath, and adds the user of a session to the page's requests to next.
type sessions struct {
	service platformv1.IdentityServiceClient
	next    http.Handler
}

// WithSessions returns a handler of the page's origin, where the page's sessions are accepted. The platform
// verifies their access tokens.
func WithSessions(platform grpc.ClientConnInterface, next http.Handler) http.Handler {
	return &sessions{service: platformv1.NewIdentityServiceClient(platform), next: next}
}

// WithoutSessions returns a handler that gets no session. Browsers send cookies to every port of a host.
func WithoutSessions(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		removeSessions(r)
		next.ServeHTTP(w, r)
	})
}

func (s *sessions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	cookie, isPage := pageCookie(r)
	var stored session
	if isPage {
		stored = storedSession(r, cookie.Name)
	}
	removeSessions(r)
	if r.URL.Path == SessionPath {
		s.serve(w, r, cookie, isPage, stored)
		return
	}
	if isPage {
		if stored.token == "" && r.Header.Get("Authorization") == "" {
			// The page believes that a user is signed in. Without this, the request would be an anonymous one.
			w.Header().Set("Cache-Control", "no-store")
			WriteMessage(w, http.StatusUnauthorized, identified("Your session has ended; sign in again", w.Header()))
			return
		}
		out := &pageWriter{ResponseWriter: w}
		if stored.token != "" && r.Header.Get("Authorization") == "" {
			r.Header.Set("Authorization", "Bearer "+stored.token)
			w.Header().Set("Cache-Control", "no-store")
			if r.URL.Path == "/api/user-info" { // where the page finds out whose session it has
				out.expired = &cookie
			}
		}
		w = out
	}
	s.next.ServeHTTP(w, r)
}

// pageCookie returns the cookie of the page that sent a request, without its value. It returns false for requests
// of programs and of other pages. The name contains the port, since all ports of a host share their cookies.
func pageCookie(r *http.Request) (http.Cookie, bool) {
	text := r.Header.Get(pageHeader)
	if text == "" || len(text) > maxOrigin || len(r.Header.Values(pageHeader)) > 1 {
		return http.Cookie{}, false
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return http.Cookie{}, false
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != text {
		return http.Cookie{}, false
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || text != u.Scheme+"://"+u.Host {
		return http.Cookie{}, false
	}
	c := http.Cookie{Name: "slipway", Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if u.Scheme == "https" { // not every browser stores Secure cookies of http://localhost
		c.Name, c.Secure = "__Host-slipway", true
	}
	if port := u.Port(); port != "" {
		c.Name += "-" + port
	}
	return c, true
}

// sessionName matches the names of the cookies with sessions.
var sessionName = regexp.MustCompile(`^(__Host-)?slipway(-[0-9]+)?$`)

// removeSessions removes the sessions from a request, so that no other part of the server sees them.
func removeSessions(r *http.Request) {
	all := r.Cookies()
	r.Header.Del("Cookie")
	for _, c := range all {
		if !sessionName.MatchString(c.Name) {
			r.AddCookie(c)
		}
	}
}

// A session is the value of the cookie.
type session struct {
	// token is the access token, "" without a session.
	token string
	// created is the id of the token if it was created for the session, which revokes it at its end; otherwise 0.
	created int64
}

func (s session) String() string { return strconv.FormatInt(s.created, 10) + "." + s.token }

// storedSession returns the session in a cookie of a request; the zero value without one.
func storedSession(r *http.Request, name string) session {
	c, err := r.Cookie(name)
	if err != nil {
		return session{}
	}
	id, token, _ := strings.Cut(c.Value, ".")
	created, err := strconv.ParseInt(id, 10, 64)
	if err != nil || !isToken(token) {
		return session{}
	}
	return session{token: token, created: created}
}

// isToken reports whether a text can be an access token, and the value of a cookie.
func isToken(text string) bool {
	return text != "" && len(text) <= MaxSessionToken && !strings.ContainsFunc(text, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune(`",;\`, c)
	})
}

// expire removes a session from the browser.
func expire(w http.ResponseWriter, cookie http.Cookie) {
	cookie.MaxAge = -1
	http.SetCookie(w, &cookie)
}

// pageWriter writes responses to the page. It removes the challenge for which browsers would ask for a password.
type pageWriter struct {
	http.ResponseWriter

	// expired is the cookie to remove if the platform rejects its token; nil for other responses.
	expired *http.Cookie
	written bool
}

// WriteHeader implements http.ResponseWriter.
func (w *pageWriter) WriteHeader(code int) {
	if !w.written {
		w.Header().Del("Www-Authenticate")
		if w.expired != nil && (code == http.StatusUnauthorized || code == http.StatusForbidden) {
			expire(w.ResponseWriter, *w.expired)
		}
	}
	w.written = w.written || code >= http.StatusOK
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap returns the underlying writer, for http.ResponseController.
func (w *pageWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
