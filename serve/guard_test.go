package serve

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// emptyServer returns a server whose model cannot be opened, for requests that do not come so far.
func emptyServer(t *testing.T, change func(*Options)) *Server {
	t.Helper()
	o := Options{Models: []Model{{Name: "none", Path: "no such file"}}}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// ask answers a request without a connection.
func ask(s http.Handler, method, path string, headers map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost:11435"+path, nil)
	for name, value := range headers {
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// TestHostsAndOrigins checks which pages reach the server.
func TestHostsAndOrigins(t *testing.T) {
	s := emptyServer(t, func(o *Options) {
		o.AllowHosts, o.AllowOrigins = []string{"Phone.local"}, []string{"https://notes.example"}
	})
	for host, want := range map[string]int{
		"localhost": 200, "localhost:11435": 200, "LOCALHOST": 200, "app.localhost:1": 200, "127.0.0.1:11435": 200,
		"[::1]:11435": 200, "[::1]": 200, "192.168.1.5:11435": 200, "phone.local:11435": 200, "localhost.": 200,
		"evil.example": 403, "evil.example:11435": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403, "": 403,
		"notlocalhost": 403, "127.0.0.1@evil.example": 403,
	} {
		require.Equal(t, want, ask(s, "GET", "/health", map[string]string{"Host": host}).Code, host)
	}
	for origin, allowed := range map[string]bool{
		"app://obsidian.md": true, "capacitor://localhost": true, "tauri://localhost": true, "http://localhost": true,
		"https://localhost:3000": true, "http://127.0.0.1:8080": true, "http://[::1]:8080": true, "https://notes.example": true,
		"http://tauri.localhost": true,
		"https://evil.example":   false, "null": false, "http://notes.example": false, "https://notes.example:444": false,
		"https://sub.notes.example": false, "http://localhost.evil.example": false, "app://evil": false, "file://": false,
		"http://localhost@evil.example": false, "http://192.168.1.5": false, "http://localhost/x": false,
	} {
		w := ask(s, "POST", "/api/chat", map[string]string{"Origin": origin})
		got := w.Header().Get("Access-Control-Allow-Origin")
		require.Equal(t, "Origin", w.Header().Get("Vary"))
		if allowed {
			require.Equal(t, origin, got)
			require.NotEqual(t, http.StatusForbidden, w.Code, origin)
		} else {
			require.Empty(t, got)
			require.Equal(t, http.StatusForbidden, w.Code, origin)
		}
	}
	all := emptyServer(t, func(o *Options) { o.AllowOrigins = []string{"*"} })
	require.Equal(t, 200, ask(all, "GET", "/health", map[string]string{"Origin": "https://evil.example"}).Code)
}

// TestPreflight checks that a browser may ask for an allowed page without a key, and for others not at all.
func TestPreflight(t *testing.T) {
	s := emptyServer(t, func(o *Options) { o.APIKeys = []string{"secret"} })
	w := ask(s, "OPTIONS", "/v1/chat/completions", map[string]string{
		"Origin": "app://obsidian.md", "Access-Control-Request-Method": "POST",
		"Access-Control-Request-Headers": "authorization, x-stainless-lang", "Access-Control-Request-Private-Network": "true",
	})
	require.Equal(t, http.StatusNoContent, w.Code)
	h := w.Header()
	require.Equal(t, "app://obsidian.md", h.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "authorization, x-stainless-lang", h.Get("Access-Control-Allow-Headers"))
	require.Contains(t, h.Get("Access-Control-Allow-Methods"), "POST")
	require.Equal(t, "true", h.Get("Access-Control-Allow-Private-Network"))
	require.Equal(t, http.StatusForbidden, ask(s, "OPTIONS", "/v1/models", map[string]string{"Origin": "https://evil.example"}).Code)
}

// TestKeys checks that each key opens everything, that nothing else does, and that only /health needs none.
func TestKeys(t *testing.T) {
	s := emptyServer(t, func(o *Options) { o.APIKeys = []string{"first", "second"} })
	for authorization, want := range map[string]int{
		"Bearer first": 200, "bearer second": 200, "Bearer  first": 200,
		"": 401, "Bearer": 401, "Bearer firs": 401, "Bearer firsts": 401, "Basic first": 401, "first": 401,
	} {
		w := ask(s, "GET", "/v1/models", map[string]string{"Authorization": authorization})
		require.Equal(t, want, w.Code, authorization)
		if want == 401 {
			require.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"))
			require.JSONEq(t, `{"error":{"message":"the API key is missing or wrong","type":"authentication_error","param":null,"code":"invalid_api_key"}}`, w.Body.String())
		}
	}
	require.Equal(t, 200, ask(s, "GET", "/health", nil).Code)
	require.Equal(t, 401, ask(s, "GET", "/metrics", nil).Code)
	require.JSONEq(t, `{"error":"the API key is missing or wrong"}`, ask(s, "GET", "/api/tags", nil).Body.String())
}

// TestUnknownEndpoints checks the statuses of wrong paths and of wrong methods.
func TestUnknownEndpoints(t *testing.T) {
	s := emptyServer(t, nil)
	for _, c := range []struct {
		method, path, allow string
		status              int
	}{
		{"GET", "/v1/chat/completions", "POST", 405},
		{"GET", "/api/generate", "POST", 405},
		{"POST", "/api/tags", "GET", 405},
		{"POST", "/", "GET", 405},
		{"GET", "/api/delete", "DELETE", 405},
		{"GET", "/v2/models", "", 404},
		{"GET", "/favicon.ico", "", 404},
	} {
		w := ask(s, c.method, c.path, nil)
		require.Equal(t, c.status, w.Code, c.path)
		require.Equal(t, c.allow, w.Header().Get("Allow"), c.path)
		require.Contains(t, w.Body.String(), `"error"`)
	}
}
