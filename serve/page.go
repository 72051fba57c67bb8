package serve

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
)

// pageFiles are the files of the page for browsers, as they are sent: nothing is built of them.
//
//go:embed page
var pageFiles embed.FS

// pagePath is below which the files of the page are. Nothing else is there, because they need no key.
const pagePath = "/page/"

// pagePolicy lets the page run its own scripts, talk to its own server, and nothing else. With trusted types, its scripts cannot
// turn text into HTML even by mistake.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

var pageTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8",
}

// pageFile is a file of the page.
type pageFile struct {
	kind   string
	tag    string // changes with the content
	plain  []byte
	zipped []byte
}

// page holds the files by name. They are compressed once, at the first request.
var page = sync.OnceValues(func() (map[string]*pageFile, error) {
	files := map[string]*pageFile{}
	err := fs.WalkDir(pageFiles, "page", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		f := &pageFile{kind: pageTypes[path.Ext(name)]}
		if f.plain, err = pageFiles.ReadFile(name); err != nil {
			return err
		}
		if f.kind == "" {
			return fmt.Errorf("%s has no media type", name)
		}
		sum := sha256.Sum256(f.plain)
		f.tag = `"` + hex.EncodeToString(sum[:8]) + `"`
		if f.zipped, err = zip(f.plain); err != nil {
			return err
		}
		files[path.Base(name)] = f
		return nil
	})
	return files, err
})

func zip(data []byte) ([]byte, error) {
	var zipped bytes.Buffer
	w, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return zipped.Bytes(), err
}

// asksPage reports whether a browser asks for a page to show. Clients of ollama's API ask for the same path.
func asksPage(r *http.Request) bool {
	return r.URL.Path == "/" && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// isPublic reports whether a request needs no key: for the page, which asks for the key, and for the state of the server.
func isPublic(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	return r.URL.Path == "/health" || asksPage(r) || strings.HasPrefix(r.URL.Path, pagePath)
}

// isOwnOrigin reports whether an origin is that of the page which this server has sent. The guard has checked the host.
func isOwnOrigin(origin string, r *http.Request) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host == r.Host && origin == u.Scheme+"://"+u.Host
}

func (s *Server) routePage() {
	s.mux.HandleFunc("GET "+pagePath+"{name}", func(w http.ResponseWriter, r *http.Request) {
		s.servePage(w, r, r.PathValue("name"))
	})
}

// servePage sends a file of the page.
func (s *Server) servePage(w http.ResponseWriter, r *http.Request, name string) {
	files, err := page()
	if err != nil {
		ollama{}.refuse(w, &problem{status: http.StatusInternalServerError, message: err.Error()})
		return
	}
	f := files[name]
	if f == nil {
		ollama{}.refuse(w, &problem{status: http.StatusNotFound, message: "the page has no such file"})
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY") // for browsers without frame-ancestors
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache") // the browser asks by the tag whether its copy is the same
	h.Add("Vary", "Accept, Accept-Encoding")
	h.Set("Etag", f.tag)
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.kind)
	body := f.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.zipped
	}
	h.Set("Content-Length", fmt.Sprint(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a browser that has left needs no page
	}
}
