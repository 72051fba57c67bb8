package serve

import (
	"compress/gzip"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const browserAccepts = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// TestPageIsForBrowsers checks that a browser gets the page where clients of ollama's API get its line, with a policy that permits nothing
// but the server, and again only if it has changed.
func TestPageIsForBrowsers(t *testing.T) {
	s := emptyServer(t, nil)
	for _, accept := range []string{"", "*/*", "application/json"} {
		w := ask(s, "GET", "/", map[string]string{"Accept": accept})
		require.Equal(t, "Ollama is running", w.Body.String(), accept)
		require.Contains(t, w.Header().Values("Vary"), "Accept")
	}
	w := ask(s, "GET", "/", map[string]string{"Accept": browserAccepts})
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "<!doctype html>")
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-cache",
	} {
		require.Equal(t, want, w.Header().Get(name), name)
	}
	policy := w.Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self';", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
		require.Contains(t, policy, want)
	}
	require.NotContains(t, policy, "unsafe")
	again := ask(s, "GET", "/", map[string]string{"Accept": browserAccepts, "If-None-Match": w.Header().Get("Etag")})
	require.Equal(t, http.StatusNotModified, again.Code)
	require.Empty(t, again.Body.String())
	head := ask(s, "HEAD", "/page/main.mjs", nil)
	require.Equal(t, "text/javascript; charset=utf-8", head.Header().Get("Content-Type"))
	require.Empty(t, head.Body.String())
	require.Equal(t, http.StatusNotFound, ask(s, "GET", "/page/other.mjs", nil).Code)
	require.Equal(t, http.StatusNotFound, ask(s, "GET", "/page/..%2fguard.go", nil).Code)
	require.Equal(t, http.StatusMethodNotAllowed, ask(s, "POST", "/page/main.mjs", nil).Code)
}

// maxPageBytes bounds the files of the page as they are sent.
const maxPageBytes = 100_000

// TestPageIsSmall checks that all files of the page, compressed and with their headers, take few bytes, and that their plain text is the same.
func TestPageIsSmall(t *testing.T) {
	s := emptyServer(t, nil)
	files, err := page()
	require.NoError(t, err)
	sum := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w := ask(s, "GET", "/page/"+name, map[string]string{"Accept-Encoding": "gzip, deflate, br"})
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
		sum += w.Body.Len()
		for header, values := range w.Header() {
			sum += len(header) + len(strings.Join(values, "")) + len(": \r\n")
		}
		r, err := gzip.NewReader(w.Body)
		require.NoError(t, err)
		plain := ask(s, "GET", "/page/"+name, nil)
		require.Empty(t, plain.Header().Get("Content-Encoding"))
		require.Equal(t, plain.Body.String(), text(t, r))
	}
	t.Logf("%d files, %d bytes", len(files), sum)
	require.LessOrEqual(t, sum, maxPageBytes)
}

// otherHosts finds addresses of other servers; names of namespaces are none. unsafeCode finds what makes elements or code of text, and
// styles and scripts that the policy refuses.
var (
	otherHosts = regexp.MustCompile(`(?i)(?:https?:|["'(=]\s*)//[a-z0-9]`)
	namespaces = strings.NewReplacer("http://www.w3.org/1998/Math/MathML", "", "http://www.w3.org/2000/svg", "")
	unsafeCode = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|setHTML|srcdoc|\beval\b|new Function|import\(|javascript:|setAttribute\('style'`)
	inlineHTML = regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|<script>|<script (?:[^>]* )?type="?(?:text|importmap)`)
)

// TestPageUsesOnlyText checks that the page's code has no way to turn text into elements or code, and asks no other server.
func TestPageUsesOnlyText(t *testing.T) {
	files, err := page()
	require.NoError(t, err)
	for name, f := range files {
		content := namespaces.Replace(string(f.plain))
		require.NotRegexp(t, otherHosts, content, name)
		require.NotRegexp(t, unsafeCode, content, name)
		if strings.HasSuffix(name, ".html") {
			require.NotRegexp(t, inlineHTML, content, name)
		}
		for _, m := range regexp.MustCompile(`(?:from|import|src=|href=)\s*["']([^"'#]+)`).FindAllStringSubmatch(content, -1) {
			require.Contains(t, files, strings.TrimPrefix(strings.TrimPrefix(m[1], "./"), "page/"), name)
		}
	}
	for _, bad := range []string{`fetch("https://evil.example")`, `src="//evil.example"`} {
		require.Regexp(t, otherHosts, bad)
	}
	require.Regexp(t, unsafeCode, "element.innerHTML = text")
	require.Regexp(t, inlineHTML, `<p style="color:red">`)
}

// TestPageNeedsNoKey checks that the page can be loaded before its user has entered a key, and that nothing else can.
func TestPageNeedsNoKey(t *testing.T) {
	s := emptyServer(t, func(o *Options) { o.APIKeys = []string{"secret"} })
	require.Equal(t, http.StatusOK, ask(s, "GET", "/", map[string]string{"Accept": browserAccepts}).Code)
	require.Equal(t, http.StatusOK, ask(s, "GET", "/page/main.mjs", nil).Code)
	require.Equal(t, http.StatusForbidden, ask(s, "GET", "/page/main.mjs", map[string]string{"Host": "evil.example"}).Code)
	for path, headers := range map[string]map[string]string{
		"/": nil, "/v1/models": {"Accept": browserAccepts}, "/page": nil, "/page/../metrics": nil, "/page%2f..%2fmetrics": nil, "//": {"Accept": browserAccepts},
	} {
		w := ask(s, "GET", path, headers)
		require.NotEqual(t, http.StatusOK, w.Code, path)
		require.NotContains(t, w.Body.String(), "llmrun_", path)
	}
	require.Equal(t, http.StatusUnauthorized, ask(s, "POST", "/page/main.mjs", nil).Code)
}

// TestPageHasItsOwnOrigin checks that the page may use the server by whatever name or address it was opened, and pages of others not.
func TestPageHasItsOwnOrigin(t *testing.T) {
	s := emptyServer(t, func(o *Options) { o.AllowHosts = []string{"phone.local"} })
	for _, c := range []struct {
		host, origin string
		status       int
	}{
		{"192.168.1.5:11435", "http://192.168.1.5:11435", 200},
		{"192.168.1.5:11435", "https://192.168.1.5:11435", 200},
		{"phone.local", "https://phone.local", 200},
		{"192.168.1.5:11435", "http://192.168.1.5", 403},
		{"192.168.1.5:11435", "http://192.168.1.6:11435", 403},
		{"192.168.1.5:11435", "http://192.168.1.5:11435/x", 403},
		{"192.168.1.5:11435", "http://x@192.168.1.5:11435", 403},
		{"evil.example", "http://evil.example", 403},
		{"192.168.1.5:11435", "null", 403},
	} {
		require.Equal(t, c.status, ask(s, "GET", "/health", map[string]string{"Host": c.host, "Origin": c.origin}).Code, c)
	}
}
