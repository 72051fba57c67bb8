package hub

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// ErrReference reports a text that names no model on a server.
var ErrReference = errors.New("not the name of a model on a server")

// Schemes of references.
const (
	schemeHF     = "hf"
	schemeOllama = "ollama"
	schemeHTTPS  = "https"
	schemeHTTP   = "http"
)

// A Reference names a model on a server.
type Reference struct {
	scheme  string
	repo    string   // of hf: OWNER/REPO
	variant string   // of hf: a quantization or a file, "" = the server's usual one
	url     *url.URL // of a URL
	ollama  ollamaName
}

// String returns the text that ParseReference accepts, without the credentials and the query of a URL.
func (r Reference) String() string {
	switch r.scheme {
	case schemeHF:
		return joinVariant(schemeHF+":"+r.repo, r.variant)
	case schemeOllama:
		return schemeOllama + ":" + r.ollama.String()
	}
	return shownURL(r.url)
}

// joinVariant appends a variant to a name, if there is one.
func joinVariant(name, variant string) string {
	if variant == "" {
		return name
	}
	return name + ":" + variant
}

// IsReference reports whether a text begins as a Reference does, so that it is no path of a file.
func IsReference(text string) bool {
	scheme, _, found := strings.Cut(text, ":")
	switch scheme {
	case schemeHF, schemeOllama:
		return found
	}
	return strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "http://")
}

var (
	hfRepo    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}$`)
	hfVariant = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
)

// ParseReference parses hf:OWNER/REPO[:QUANT], ollama:NAME[:TAG], or a URL.
func ParseReference(text string) (Reference, error) {
	scheme, rest, _ := strings.Cut(text, ":")
	switch {
	case !IsReference(text):
		return Reference{}, fmt.Errorf("%w: %q; give hf:OWNER/REPO, hf:OWNER/REPO:QUANT, ollama:NAME:TAG or https://…", ErrReference, text)
	case scheme == schemeHF:
		repo, variant, colon := strings.Cut(rest, ":")
		if !hfRepo.MatchString(repo) || strings.Contains(repo, "..") || colon && (!hfVariant.MatchString(variant) || strings.Contains(variant, "..")) {
			return Reference{}, fmt.Errorf("%w: %q; give hf:OWNER/REPO, or hf:OWNER/REPO:QUANT such as hf:OWNER/REPO:Q4_K_M", ErrReference, text)
		}
		return Reference{scheme: scheme, repo: repo, variant: variant}, nil
	case scheme == schemeOllama:
		name, err := parseOllama(rest)
		if err != nil {
			return Reference{}, fmt.Errorf("%w: %q: %w", ErrReference, text, err)
		}
		return Reference{scheme: scheme, ollama: name}, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return Reference{}, fmt.Errorf("%w: %q is no URL", ErrReference, text)
	}
	return Reference{scheme: u.Scheme, url: u}, nil
}

// shownURL returns a URL without what may be secret in it: credentials and query.
func shownURL(u *url.URL) string {
	shown := *u
	shown.User, shown.RawQuery, shown.Fragment, shown.RawFragment = nil, "", "", ""
	return shown.String()
}

// An ollamaName is a name in a registry of ollama.
type ollamaName struct {
	insecure               bool // http
	host, space, name, tag string
}

// The parts of ollama's names that are not written.
const (
	ollamaHost  = "registry.ollama.ai"
	ollamaSpace = "library"
	ollamaTag   = "latest"
)

var (
	ollamaPart = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	ollamaAt   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?$`)
)

// parseOllama parses [http://|https://][HOST/][NAMESPACE/]NAME[:TAG].
func parseOllama(text string) (n ollamaName, err error) {
	n = ollamaName{host: ollamaHost, space: ollamaSpace, tag: ollamaTag}
	if rest, ok := strings.CutPrefix(text, "http://"); ok {
		n.insecure, text = true, rest
	} else {
		text = strings.TrimPrefix(text, "https://")
	}
	parts := strings.Split(text, "/")
	last := parts[len(parts)-1]
	if name, tag, ok := strings.Cut(last, ":"); ok {
		last, n.tag = name, tag
	}
	n.name = last
	switch len(parts) {
	case 1:
	case 2:
		n.space = parts[0]
	case 3:
		n.host, n.space = parts[0], parts[1]
	default:
		return n, errors.New("give ollama:NAME, ollama:NAME:TAG or ollama:HOST/NAMESPACE/NAME:TAG")
	}
	for _, part := range []string{n.space, n.name, n.tag} {
		if !ollamaPart.MatchString(part) || strings.Contains(part, "..") {
			return n, fmt.Errorf("%q is no part of a name", part)
		}
	}
	if !ollamaAt.MatchString(n.host) {
		return n, fmt.Errorf("%q is no host", n.host)
	}
	return n, nil
}

// String returns the shortest name.
func (n ollamaName) String() string {
	text := n.name
	if n.space != ollamaSpace || n.host != ollamaHost {
		text = path.Join(n.space, text)
	}
	if n.host != ollamaHost {
		text = path.Join(n.host, text)
	}
	if n.insecure {
		text = "http://" + text
	}
	if n.tag != ollamaTag {
		text += ":" + n.tag
	}
	return text
}

// base returns the URL below which the registry has the manifests and blobs of the name.
func (n ollamaName) base() string {
	scheme := schemeHTTPS
	if n.insecure {
		scheme = schemeHTTP
	}
	return scheme + "://" + n.host + "/v2/" + n.space + "/" + n.name
}
