package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// appOrigins are the origins of apps that show web pages of their own: Obsidian, and apps made with Capacitor and
// Tauri.
var appOrigins = []string{"app://obsidian.md", "capacitor://localhost", "tauri://localhost"}

// guard decides who may send requests. A page on the internet reaches this machine's ports through the browser of
// its user: the guard recognizes it by its origin, and one that gave its own name this machine's address by the host.
type guard struct {
	hosts   []string
	origins []string
	keys    [][sha256.Size]byte // no keys: everyone may ask
}

func newGuard(o *Options) *guard {
	g := &guard{origins: slices.Concat(appOrigins, o.AllowOrigins)}
	for _, h := range o.AllowHosts {
		g.hosts = append(g.hosts, strings.ToLower(h))
	}
	for _, key := range o.APIKeys {
		g.keys = append(g.keys, sha256.Sum256([]byte(key)))
	}
	return g
}

// allowsHost reports whether a Host header names this machine: as localhost, by an address, which no name of others
// can stand for, or by a name of Options.AllowHosts.
func (g *guard) allowsHost(header string) bool {
	host := header
	if name, _, err := net.SplitHostPort(header); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if isLocalhost(host) || slices.Contains(g.hosts, host) {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

func isLocalhost(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// allowsOrigin reports whether pages of an origin may use the server.
func (g *guard) allowsOrigin(origin string) bool {
	if slices.Contains(g.origins, origin) || slices.Contains(g.origins, "*") {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Path != "" || u.RawQuery != "" {
		return false
	}
	host := strings.ToLower(u.Hostname())
	address, err := netip.ParseAddr(host)
	return isLocalhost(host) || err == nil && address.IsLoopback()
}

// allowsKey reports whether a request has one of the keys. The comparison takes the same time for all keys.
func (g *guard) allowsKey(r *http.Request) bool {
	if len(g.keys) == 0 {
		return true
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if scheme == "" {
		scheme, given = "Bearer", r.Header.Get("X-Api-Key") // of Anthropic's clients
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(given)))
	found := 0
	for i := range g.keys {
		found |= subtle.ConstantTimeCompare(sum[:], g.keys[i][:])
	}
	return found == 1 && strings.EqualFold(scheme, "Bearer")
}

// admit checks a request and sets the headers for its origin. It reports whether the request goes on; the others
// are answered.
func (g *guard) admit(w http.ResponseWriter, r *http.Request) bool {
	d := dialectOf(r)
	if !g.allowsHost(r.Host) {
		d.refuse(w, &problem{status: http.StatusForbidden, message: "requests must name this machine as their host: localhost, an address, or an allowed name"})
		return false
	}
	w.Header().Add("Vary", "Origin")
	if origin := r.Header.Get("Origin"); origin != "" {
		if !g.allowsOrigin(origin) && !isOwnOrigin(origin, r) {
			d.refuse(w, &problem{status: http.StatusForbidden, message: "pages of this origin may not use the server; --allow-origin permits them"})
			return false
		}
		w.Header().Set("Access-Control-Allow-Origin", origin)
		if r.Method == http.MethodOptions {
			preflight(w, r)
			return false
		}
	}
	if !isPublic(r) && !g.allowsKey(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		d.refuse(w, &problem{status: http.StatusUnauthorized, message: "the API key is missing or wrong", code: "invalid_api_key"})
		return false
	}
	return true
}

// preflight answers the question of a browser whether a page may send a request. Clients send headers of their
// own, so those that the browser names are allowed; what they say is checked with the request.
func preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" && len(asked) < 4096 {
		h.Set("Access-Control-Allow-Headers", asked)
	}
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}
