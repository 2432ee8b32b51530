package gateway

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// serve begins and ends sessions.
func (s *sessions) serve(w http.ResponseWriter, r *http.Request, cookie http.Cookie, isPage bool, stored session) {
	if into, ok := r.Context().Value(routeKey{}).(*string); ok {
		*into = SessionPath
	}
	w.Header().Set("Cache-Control", "no-store")
	ctx, cancel := context.WithTimeout(r.Context(), defaultTimeouts().answer)
	defer cancel()
	r = r.WithContext(ctx)
	switch {
	case r.Method != http.MethodPost && r.Method != http.MethodDelete:
		w.Header().Set("Allow", "POST, DELETE")
		WriteMessage(w, http.StatusMethodNotAllowed, r.Method+" is not allowed here")
	case !isPage || r.Header.Get("Origin") == "":
		WriteMessage(w, http.StatusForbidden, "Only the web page of this server has sessions; programs send an access token in the header Authorization")
	case r.Method == http.MethodPost:
		s.begin(w, r, cookie, stored)
	default:
		s.revoke(ctx, stored)
		expire(w, cookie)
		w.WriteHeader(http.StatusNoContent)
	}
}

// signInRequest is the body that begins a session: an access token of the user, or the code with which the platform
// has sent the browser back to the page.
type signInRequest struct {
	Token        string `json:"token"`
	Code         string `json:"code"`
	CodeVerifier string `json:"codeVerifier"`
	RedirectURI  string `json:"redirectUri"`
}

// begin replaces the session by that of another sign-in.
func (s *sessions) begin(w http.ResponseWriter, r *http.Request, cookie http.Cookie, stored session) {
	in, ok := readSignIn(w, r)
	if !ok {
		return
	}
	var now session
	var err error
	if in.Code != "" {
		now, err = s.exchange(r.Context(), in)
	} else {
		now.token = in.Token
		_, err = s.service.GetUserInfo(withToken(r.Context(), in.Token), &platformv1.GetUserInfoRequest{})
	}
	if err == nil && !isToken(now.token) {
		err = errors.New("the platform created a token that cannot be a cookie")
	}
	if err != nil {
		writePlatformError(r.Context(), nil, nil, w, r, err)
		return
	}
	s.revoke(r.Context(), stored)
	cookie.Value, cookie.MaxAge = now.String(), int(SessionLife/time.Second)
	http.SetCookie(w, &cookie)
	writeJSON(w, struct {
		TokenID int64 `json:"tokenId,omitempty"`
	}{tokenID(now)})
}

// readSignIn reads the request body. If it is not usable, readSignIn writes the error and returns false.
func readSignIn(w http.ResponseWriter, r *http.Request) (in signInRequest, ok bool) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxSession))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		WriteMessage(w, http.StatusRequestEntityTooLarge, "The sign-in is larger than 16 KiB")
	case err != nil || json.Unmarshal(text, &in) != nil || !isPlain(in.Code+in.CodeVerifier+in.RedirectURI) || (in.Code == "") == (in.Token == ""):
		WriteMessage(w, http.StatusBadRequest, identified("The sign-in must be a JSON object with either token or code", w.Header()))
	case in.Token != "" && !isToken(in.Token):
		WriteMessage(w, http.StatusForbidden, "This is not an access token; copy the whole token, which has no spaces")
	default:
		return in, true
	}
	return in, false
}

// exchange creates an access token for the user who has signed in at the OIDC provider.
func (s *sessions) exchange(ctx context.Context, in signInRequest) (session, error) {
	pair, err := s.service.IssueTokens(ctx, &platformv1.IssueTokensRequest{
		GrantType: "authorization_code", Code: in.Code, CodeVerifier: in.CodeVerifier, RedirectUri: in.RedirectURI, ClientId: pageClient,
	})
	if err != nil {
		return session{}, err
	}
	ctx = withToken(ctx, pair.GetAccessToken())
	now := time.Now().UTC()
	made, err := s.service.CreateToken(ctx, &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{
		Name: "Web page " + now.Format("2006-01-02T15:04:05.000Z"), Expires: now.Add(SessionLife).Format(time.RFC3339),
	}})
	// The pair was needed only to create the token.
	_, ended := s.service.DeleteToken(ctx, &platformv1.DeleteTokenRequest{TokenId: pairID(pair.GetAccessToken())})
	if err != nil {
		return session{}, err
	}
	created := session{token: made.GetAccessKey(), created: int64(made.GetToken().GetId())}
	if ended != nil {
		s.revoke(ctx, created)
		return session{}, ended
	}
	return created, nil
}

// revoke deletes the token that was created for a session. If this fails, the token expires with the session.
func (s *sessions) revoke(ctx context.Context, stored session) {
	if stored.created != 0 {
		_, _ = s.service.DeleteToken(withToken(ctx, stored.token), &platformv1.DeleteTokenRequest{TokenId: stored.created})
	}
}

// withToken returns a context for calls of the platform with an access token.
func withToken(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// tokenID returns the id of a session's token, for the user's list of tokens; 0 if it is unknown.
func tokenID(s session) int64 {
	if s.created != 0 {
		return s.created
	}
	raw, err := base64.StdEncoding.DecodeString(s.token)
	head, _, _ := strings.Cut(string(raw), ".")
	var known struct{ TID int64 }
	if err != nil || json.Unmarshal([]byte(head), &known) != nil {
		return 0
	}
	return known.TID
}

// pairID returns the id of the platform's session that an access token of a program belongs to; 0 if it is unknown.
func pairID(jwt string) int64 {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return 0
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		SID int64 `json:"sid,string"`
	}
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		return 0
	}
	return claims.SID
}
