// Package hubserver imitates the servers from which models are downloaded: plain files with ranges, the API of
// huggingface.co, and a registry of ollama, as their public documentation describes them. Its fields are faults.
package hubserver

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A Server imitates servers of models. Tests set its fields while it answers nothing, or hold its mutex.
type Server struct {
	*httptest.Server
	Mu       sync.Mutex
	Files    map[string][]byte // by path
	ETag     map[string]string
	Requests []*http.Request

	DropAfter  int                   // bytes after which each connection ends, 0 = never
	Drops      int                   // connections that end, -1 = all of them
	NoRanges   bool                  // answers with the whole file
	IgnoreIf   bool                  // answers ranges whatever If-Range says
	Lie        func(h http.Header)   // changes headers of answers to ranges
	Extra      []byte                // sent behind each answer
	Stall      bool                  // sends nothing, once
	Status     []int                 // codes of the next answers
	Elsewhere  *Server               // blobs are redirected there
	Before     func(r *http.Request) // runs before each answer
	WrongSizes bool                  // the listing says other sizes
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	s := Start()
	t.Cleanup(s.Close)
	return s
}

// Start starts a server, which the caller closes.
func Start() *Server {
	s := &Server{Files: map[string][]byte{}, ETag: map[string]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	return s
}

// Content returns bytes that do not repeat.
func Content(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// SHA256 returns the hash of data in hexadecimal digits.
func SHA256(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	s.Mu.Lock()
	s.Requests = append(s.Requests, r)
	before := s.Before
	s.Mu.Unlock()
	if before != nil {
		before(r)
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if len(s.Status) > 0 {
		code := s.Status[0]
		s.Status = s.Status[1:]
		if code != http.StatusOK {
			w.WriteHeader(code)
			return
		}
	}
	data, ok := s.Files[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if s.Elsewhere != nil && (strings.Contains(r.URL.Path, "/resolve/") || strings.Contains(r.URL.Path, "/blobs/")) {
		s.Elsewhere.Mu.Lock()
		s.Elsewhere.Files["/blob"+r.URL.Path] = data
		s.Elsewhere.Mu.Unlock()
		w.Header().Set("X-Linked-Etag", `"`+SHA256(data)+`"`)
		http.Redirect(w, r, s.Elsewhere.URL+"/blob"+r.URL.Path+"?signature=secret", http.StatusFound)
		return
	}
	s.send(w, r, data)
}

// send sends a file or a part of it, with the faults.
func (s *Server) send(w http.ResponseWriter, r *http.Request, data []byte) {
	if s.Stall {
		s.Stall = false
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		s.Mu.Unlock()
		<-r.Context().Done() // the client gives up
		s.Mu.Lock()
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	if bytes.HasPrefix(data, []byte("<html>")) {
		h.Set("Content-Type", "text/html; charset=utf-8")
	}
	if tag := s.ETag[r.URL.Path]; tag != "" {
		h.Set("ETag", tag)
	}
	from, to, total, code := 0, len(data), len(data), http.StatusOK
	if ranged := r.Header.Get("Range"); ranged != "" && !s.NoRanges && (s.IgnoreIf || r.Header.Get("If-Range") == "" || r.Header.Get("If-Range") == h.Get("ETag")) {
		first, last, _ := strings.Cut(strings.TrimPrefix(ranged, "bytes="), "-")
		from, _ = strconv.Atoi(first)
		if last != "" {
			n, _ := strconv.Atoi(last)
			to = min(n+1, to)
		}
		if from >= total {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		code = http.StatusPartialContent
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, total))
	}
	body := data[from:to]
	if s.Extra == nil {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	if s.Lie != nil {
		s.Lie(h)
	}
	w.WriteHeader(code)
	if s.DropAfter > 0 && s.Drops != 0 && len(body) > s.DropAfter {
		s.Drops--
		_, _ = w.Write(body[:s.DropAfter])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body)
	if s.Extra != nil {
		_, _ = w.Write(s.Extra)
	}
}

// Commit is the commit of all repositories.
const Commit = "0123456789012345678901234567890123456789"

// AddRepo adds a repository of hf: with files, large ones with a SHA-256.
func (s *Server) AddRepo(repo string, files map[string][]byte) {
	var entries []map[string]any
	for _, name := range slices.Sorted(maps.Keys(files)) {
		data := files[name]
		s.Files["/"+repo+"/resolve/"+Commit+"/"+name] = data
		size := len(data)
		if s.WrongSizes {
			size += 3
		}
		blob := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(data)), data...))
		entry := map[string]any{"type": "file", "path": name, "size": size, "oid": hex.EncodeToString(blob[:])}
		if strings.HasSuffix(name, ".gguf") || strings.HasSuffix(name, ".safetensors") {
			entry["lfs"] = map[string]any{"oid": SHA256(data), "size": size, "pointerSize": 134}
			entry["oid"] = strings.Repeat("a", 40)
		}
		entries = append(entries, entry, map[string]any{"type": "directory", "path": "dir-" + name, "size": 0, "oid": strings.Repeat("b", 40)})
	}
	listing, err := json.Marshal(entries)
	if err != nil {
		panic(err) // impossible: it has only texts and numbers
	}
	s.Files["/api/models/"+repo+"/revision/main"] = []byte(`{"id":"` + repo + `","sha":"` + Commit + `"}`)
	s.Files["/api/models/"+repo+"/tree/"+Commit] = listing
}

// AddOllama adds a model of a registry.
func (s *Server) AddOllama(name, tag string, data []byte) {
	digest := "sha256:" + SHA256(data)
	s.Files["/v2/"+name+"/manifests/"+tag] = fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json",
"config":{"mediaType":"application/vnd.docker.container.image.v1+json","digest":"sha256:00","size":3},
"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":%q,"size":%d},
{"mediaType":"application/vnd.ollama.image.template","digest":"sha256:11","size":5}]}`, digest, len(data))
	s.Files["/v2/"+name+"/blobs/"+digest] = data
}

// Sent returns how many requests had a header with a value.
func (s *Server) Sent(header, value string) (n int) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for _, r := range s.Requests {
		if strings.Contains(r.Header.Get(header), value) {
			n++
		}
	}
	return n
}
