package gateway_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"slipway.dev/proto/gen/openapi"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// refusingWith returns a service that fails with a code, a message and metadata.
func refusingWith(t *testing.T, code codes.Code, message string, meta map[string]string) grpc.StreamHandler {
	t.Helper()
	st, err := status.New(code, message).WithDetails(&errdetails.ErrorInfo{Domain: "slipway.dev", Metadata: meta})
	if err != nil {
		t.Fatal(err)
	}
	return func(any, grpc.ServerStream) error { return st.Err() }
}

func TestDeviceAuthorization(t *testing.T) {
	t.Parallel()
	got := &platformv1.BeginDeviceSignInRequest{}
	at := servePlatform(t, "/api", byMethod(map[string]grpc.StreamHandler{
		"BeginDeviceSignIn": answering(t, got, &platformv1.BeginDeviceSignInResponse{
			DeviceCode: "secret", UserCode: "BDFG-HJKL", VerificationUri: "https://p/oauth/device", ExpiresIn: 900, Interval: 5,
		}),
		"IssueTokens": refusingWith(t, codes.InvalidArgument, "Ask again", map[string]string{"oauth": "slow_down"}),
	}))
	resp, body := postForm(t, at+"/oauth/device_authorization", url.Values{"client_id": {"slipway"}})
	holds(t, document(t, openapi.Platform), http.MethodPost, "/oauth/device_authorization", resp, []byte(body))
	if resp.StatusCode != http.StatusOK || got.GetClientId() != "slipway" || !strings.Contains(body, `"user_code":"BDFG-HJKL"`) || !strings.Contains(body, `"interval":5`) ||
		strings.Contains(body, "complete") || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %d %s for %v", resp.StatusCode, body, got)
	}
	resp, body = postForm(t, at+"/oauth/access_token", url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {"secret"}})
	holds(t, document(t, openapi.Platform), http.MethodPost, "/oauth/access_token", resp, []byte(body))
	if want := `{"code":"request.invalid","error":"slow_down","error_description":"Ask again","message":"Ask again"}`; resp.StatusCode != http.StatusBadRequest || body != want {
		t.Errorf("who asks too early gets %d %s, want %s", resp.StatusCode, body, want)
	}
}

func TestDevicePage(t *testing.T) {
	t.Parallel()
	got, granted := &platformv1.DescribeDeviceRequest{}, &platformv1.GrantConsentRequest{}
	info := answering(t, &platformv1.GetServiceInfoRequest{}, &platformv1.GetServiceInfoResponse{
		ServiceInfo: &platformv1.ServiceInfo{ApiUrl: "https://p", AuthTypes: []string{"oidc"}},
	})
	at := servePlatform(t, "", byMethod(map[string]grpc.StreamHandler{
		"GetServiceInfo": info, "DescribeDevice": answering(t, got, &platformv1.DescribeDeviceResponse{ClientId: "<b>cli", UserName: "ada", Consent: "yes-2"}),
		"GrantConsent": answering(t, granted, &platformv1.GrantConsentResponse{ClientId: "<b>cli"}),
	}))
	form := url.Values{"user_code": {"BDFG-HJKL"}, "access_token": {"secret"}}
	resp := get(t, at+"/oauth/device?user_code=BDFG-HJKL")
	page, _ := io.ReadAll(resp.Body)
	holds(t, document(t, openapi.Platform), http.MethodGet, "/oauth/device", resp, page)
	if !strings.Contains(string(page), `href="https://p/oauth/oidc?device=1"`) || strings.Contains(string(page), "BDFG-HJKL") ||
		!strings.Contains(resp.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
		t.Errorf("the page is %v %s", resp.Header, page)
	}
	resp, body := postForm(t, at+"/oauth/device", form)
	holds(t, document(t, openapi.Platform), http.MethodPost, "/oauth/device", resp, []byte(body))
	if got.GetAccessToken() != "secret" || got.GetUserCode() != "BDFG-HJKL" || strings.Contains(body, "is signed in") || strings.Contains(body, "secret") {
		t.Errorf("got %d %s for %v", resp.StatusCode, body, got)
	}
	asks(t, resp, body, "act as ada?", "<b>&lt;b&gt;cli</b>", "shows the code <b>BDFG-HJKL</b>", `action="consent"`, `value="yes-2"`)
	resp, body = postForm(t, at+"/oauth/consent", url.Values{"consent": {"yes-2"}})
	holds(t, document(t, openapi.Platform), http.MethodPost, "/oauth/consent", resp, []byte(body))
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, "&lt;b&gt;cli</b> is signed in") || granted.GetConsent() != "yes-2" {
		t.Errorf("got %d %s for %v", resp.StatusCode, body, granted)
	}

	at = servePlatform(t, "", byMethod(map[string]grpc.StreamHandler{
		"DescribeDevice": refusingWith(t, codes.Unauthenticated, "The access token is not valid", nil),
		"GetServiceInfo": answering(t, &platformv1.GetServiceInfoRequest{}, &platformv1.GetServiceInfoResponse{ServiceInfo: &platformv1.ServiceInfo{ApiUrl: "https://p", AuthTypes: []string{"oidc"}}}),
	}))
	form.Set("user_code", `"><script>`)
	resp, body = postForm(t, at+"/oauth/device", form)
	holds(t, document(t, openapi.Platform), http.MethodPost, "/oauth/device", resp, []byte(body))
	if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "The access token is not valid") || !strings.Contains(body, `<form`) ||
		!strings.Contains(body, `href="https://p/oauth/oidc?device=1"`) ||
		strings.Contains(body, "secret") || strings.Contains(body, "<script>") {
		t.Errorf("who is refused is shown %d %s", resp.StatusCode, body)
	}
}

// TestDeviceElsewhere signs in at the OIDC provider and returns to the page.
func TestDeviceElsewhere(t *testing.T) {
	t.Parallel()
	begun, got := &platformv1.BeginSignInRequest{}, &platformv1.DescribeDeviceRequest{}
	at := servePlatform(t, "", byMethod(map[string]grpc.StreamHandler{
		"BeginSignIn":    answering(t, begun, &platformv1.BeginSignInResponse{Url: "https://idp/auth", State: "secret"}),
		"FinishSignIn":   answering(t, &platformv1.FinishSignInRequest{}, &platformv1.FinishSignInResponse{Consent: "yes-1", UserName: "ada"}),
		"DescribeDevice": answering(t, got, &platformv1.DescribeDeviceResponse{ClientId: "cli", UserName: "ada", Consent: "yes-2"}),
	}))
	startSignIn := visit(t, at+"/oauth/oidc?device=1", nil)
	if startSignIn.StatusCode != http.StatusSeeOther || begun.GetProgram() != nil {
		t.Errorf("left with %d for %v", startSignIn.StatusCode, begun)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+"/oauth/callback?state=secret&code=c", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.AddCookie(startSignIn.Cookies()[0])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, _ := io.ReadAll(resp.Body)
	holds(t, document(t, openapi.Platform), http.MethodGet, "/oauth/callback", resp, page)
	if !strings.Contains(string(page), "Continue as ada") || !strings.Contains(string(page), `value="yes-1"`) || strings.Contains(string(page), "access_token") {
		t.Errorf("the page is %s", page)
	}
	if _, body := postForm(t, at+"/oauth/device", url.Values{"user_code": {"BDFG-HJKL"}, "consent": {"yes-1"}, "user": {"ada"}}); got.GetConsent() != "yes-1" || !strings.Contains(body, `value="yes-2"`) {
		t.Errorf("asked about %v, %s", got, body)
	}
}
