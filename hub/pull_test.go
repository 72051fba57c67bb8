package hub_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hub"
	"github.com/llmrun/llmrun/internal/testutil/hubserver"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

const fileBytes = 20<<10 + 7

// TestPullHF pulls one of several quantizations, and finds it again without a download.
func TestPullHF(t *testing.T) {
	b := newBench(t)
	small, large := hubserver.Content(fileBytes, 1), hubserver.Content(3*fileBytes, 2)
	b.server.AddRepo("owner/Fox-GGUF", map[string][]byte{
		"Fox-Q4_K_M.gguf": small, "Fox-Q8_0.gguf": large, "mmproj-Fox-f16.gguf": hubserver.Content(100, 3), "README.md": []byte("x"), "Fox-Q2_K.gguf": hubserver.Content(fileBytes/2, 4),
	})
	r := b.find("hf:owner/Fox-GGUF:q8_0")
	require.Equal(t, "Fox-Q8_0", r.Name)
	require.Equal(t, []hub.Choice{{Label: "Q4_K_M", Bytes: int64(len(small))}, {Label: "Q2_K", Bytes: fileBytes / 2}}, r.Smaller)
	var last [2]int64
	m, err := b.store.Pull(context.Background(), b.client, r, func(done, total int64) { last = [2]int64{done, total} })
	require.NoError(t, err)
	require.Equal(t, hub.Model{Name: "Fox-Q8_0", Path: "models/Fox-Q8_0.gguf", Bytes: int64(len(large)), Source: hub.SourcePulled, From: "hf:owner/Fox-GGUF:q8_0"}, m)
	require.Equal(t, large, b.stored("Fox-Q8_0.gguf"))
	require.Equal(t, [2]int64{int64(len(large)), int64(len(large))}, last)
	require.Equal(t, []string{"Fox-Q8_0.gguf", "Fox-Q8_0.model.json"}, b.names())
	requests := len(b.server.Requests)
	again, err := b.store.Pull(context.Background(), b.client, r, nil)
	require.NoError(t, err)
	require.Equal(t, m, again)
	require.Len(t, b.server.Requests, requests)

	usual := b.find("hf:owner/Fox-GGUF")
	require.Equal(t, "Fox-Q4_K_M", usual.Name)
	require.Contains(t, usual.Note, "is Q4_K_M of 3 quantizations: Q8_0")
	_, err = b.pull("hf:owner/Fox-GGUF:Q5_0")
	require.ErrorContains(t, err, fmt.Sprintf("the repository has no Q5_0; choose Q8_0 (%s), Q4_K_M", tiering.SizeText(int64(len(large)))))
	_, err = b.pull("hf:owner/Wolf")
	require.ErrorContains(t, err, "404 Not Found; correct the name owner/Wolf")
}

// TestPullHashesWhatArrives receives the SHA-256 of each file, also of those with no published one or one of git, and of
// a download that is continued or begins again.
func TestPullHashesWhatArrives(t *testing.T) {
	b := newBench(t)
	hashed := map[string]string{}
	b.store.Hashed = func(path string, sum [32]byte, size int64) {
		require.EqualValues(t, len(b.stored(strings.TrimPrefix(path, "models/"))), size)
		hashed[path] = hex.EncodeToString(sum[:])
	}
	config, weights, plain := []byte(`{"a":1}`), hubserver.Content(fileBytes, 1), hubserver.Content(fileBytes, 2)
	b.server.AddRepo("o/m", map[string][]byte{"config.json": config, "model.safetensors": weights})
	_, err := b.pull("hf:o/m")
	require.NoError(t, err)
	for _, noRanges := range []bool{false, true} {
		b.server.Files["/plain.gguf"], b.server.ETag["/plain.gguf"] = plain, `"one"`
		r := b.find(b.server.URL + "/plain.gguf")
		require.NoError(t, r.Rename(fmt.Sprintf("plain-%v", noRanges)))
		b.server.DropAfter, b.server.Drops, b.server.NoRanges = 3000, 1, noRanges
		ctx, cancel := context.WithCancelCause(context.Background())
		b.client.Pause = func(context.Context, time.Duration) error { cancel(errors.New("stopped")); return ctx.Err() }
		_, err = b.store.Pull(ctx, b.client, r, nil)
		require.Error(t, err)
		b.client.Pause = func(context.Context, time.Duration) error { return nil }
		_, err = b.store.Pull(context.Background(), b.client, r, nil)
		require.NoError(t, err)
	}
	require.Equal(t, map[string]string{
		"models/m/config.json": hubserver.SHA256(config), "models/m/model.safetensors": hubserver.SHA256(weights),
		"models/plain-false.gguf": hubserver.SHA256(plain), "models/plain-true.gguf": hubserver.SHA256(plain),
	}, hashed)
}

// TestPullParts pulls a split GGUF file, and a safetensors repository, each file of which is checked.
func TestPullParts(t *testing.T) {
	b := newBench(t)
	b.server.AddRepo("o/split", map[string][]byte{"Q4_0/m-Q4_0-00001-of-00002.gguf": hubserver.Content(5000, 1), "Q4_0/m-Q4_0-00002-of-00002.gguf": hubserver.Content(4000, 2)})
	m, err := b.pull("hf:o/split")
	require.NoError(t, err)
	require.Equal(t, "models/m-Q4_0-00001-of-00002.gguf", m.Path)
	require.Equal(t, "m-Q4_0", m.Name)
	require.Equal(t, int64(9000), m.Bytes)

	b.server.AddRepo("o/half", map[string][]byte{"h-00001-of-00002.gguf": hubserver.Content(5000, 1)})
	_, err = b.pull("hf:o/half")
	require.ErrorContains(t, err, "has 1 of the 2 parts of h")

	files := map[string][]byte{
		"config.json": []byte(`{"a":1}`), "tokenizer.json": []byte(`{}`), "model.safetensors": hubserver.Content(9000, 3), "pytorch_model.bin": hubserver.Content(10, 1),
		"onnx/model.onnx": hubserver.Content(10, 1), "chat_template.jinja": []byte("{{ x }}"),
	}
	b.server.AddRepo("o/Plain", files)
	m, err = b.pull("hf:o/Plain")
	require.NoError(t, err)
	require.Equal(t, "models/Plain", m.Path)
	for _, name := range []string{"config.json", "tokenizer.json", "model.safetensors", "chat_template.jinja"} {
		require.Equal(t, files[name], b.stored("Plain/"+name))
	}
	_, err = b.store.FS.Stat("models/Plain/pytorch_model.bin")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = b.pull("hf:o/Plain:Q4_0")
	require.ErrorContains(t, err, "no GGUF files to choose from: leave :Q4_0 out")

	b.server.AddRepo("o/bad", map[string][]byte{"config.json": []byte(`{"a":1}`), "model.safetensors": hubserver.Content(100, 3)})
	b.server.Files["/o/bad/resolve/"+hubserver.Commit+"/config.json"] = []byte(`{"a":2}`) // git's hash says otherwise
	_, err = b.pull("hf:o/bad")
	require.ErrorIs(t, err, hub.ErrDigest)

	freed, err := b.store.Remove("Plain")
	require.NoError(t, err)
	require.Greater(t, freed, int64(9000))
	_, err = b.store.FS.Stat("models/Plain")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestPullOllama pulls from a registry, with a namespace and without.
func TestPullOllama(t *testing.T) {
	b := newBench(t)
	data := hubserver.Content(fileBytes, 1)
	host := strings.TrimPrefix(b.server.URL, "http://")
	b.server.AddOllama("library/fox", "latest", data)
	b.server.AddOllama("me/fox", "1b", hubserver.Content(100, 2))
	m, err := b.pull("ollama:http://" + host + "/library/fox")
	require.NoError(t, err)
	require.Equal(t, "fox", m.Name)
	require.Equal(t, data, b.stored("fox.gguf"))
	m, err = b.pull("ollama:http://" + host + "/me/fox:1b")
	require.NoError(t, err)
	require.Equal(t, "fox-1b", m.Name)
	require.Zero(t, b.server.Sent("Authorization", "hf_secret"))
	_, err = b.pull("ollama:http://" + host + "/library/fox:none")
	require.ErrorContains(t, err, "correct the name or the tag")
	b.server.Files["/v2/library/t/manifests/latest"] = []byte(`{"layers":[{"mediaType":"application/vnd.ollama.image.tensor; name=x","digest":"sha256:00","size":1}]}`)
	_, err = b.pull("ollama:http://" + host + "/library/t")
	require.ErrorContains(t, err, "no GGUF file: its tensors are layers of their own")
	b.server.Files["/v2/library/e/manifests/latest"] = []byte(`{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:../../x","size":1}]}`)
	_, err = b.pull("ollama:http://" + host + "/library/e")
	require.ErrorIs(t, err, hub.ErrServer)
}

// TestPullGoesOn loses each connection after some bytes: the next one asks for the rest.
func TestPullGoesOn(t *testing.T) {
	for _, reference := range []string{"hf:o/m", "%s/m.gguf"} {
		b := newBench(t)
		data := hubserver.Content(fileBytes, 1)
		b.server.AddRepo("o/m", map[string][]byte{"m.gguf": data})
		b.server.Files["/m.gguf"], b.server.ETag["/m.gguf"] = data, `"one"`
		if strings.Contains(reference, "%") {
			reference = fmt.Sprintf(reference, b.server.URL)
		}
		r := b.find(reference)
		b.server.DropAfter, b.server.Drops = 3000, -1
		_, err := b.store.Pull(context.Background(), b.client, r, nil)
		require.NoError(t, err, reference)
		require.Equal(t, data, b.stored("m.gguf"))
		require.GreaterOrEqual(t, b.server.Sent("Range", "bytes=3000-"), 1)
		for _, pause := range b.pauses { // a connection that brought something is followed by a short pause
			require.Equal(t, time.Second, pause)
		}
	}
}

// TestPullGivesUp stops after several attempts that bring nothing, with longer and longer pauses, and says what is known.
func TestPullGivesUp(t *testing.T) {
	b := newBench(t)
	b.server.AddRepo("o/m", map[string][]byte{"m.gguf": hubserver.Content(fileBytes, 1)})
	r := b.find("hf:o/m")
	b.server.Status = []int{503, 503, 503, 503, 503, 503, 503}
	_, err := b.store.Pull(context.Background(), b.client, r, nil)
	var status *hub.StatusError
	require.ErrorAs(t, err, &status)
	require.Equal(t, 503, status.Code)
	require.Equal(t, []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9}, b.pauses)
	b.server.Status = []int{http.StatusForbidden}
	requests := len(b.server.Requests)
	_, err = b.store.Pull(context.Background(), b.client, r, nil)
	require.ErrorAs(t, err, &status)
	require.Len(t, b.server.Requests, requests+1) // that does not pass
}

// TestPullStalls gives up a connection that brings nothing.
func TestPullStalls(t *testing.T) {
	b := newBench(t)
	data := hubserver.Content(fileBytes, 1)
	b.server.AddRepo("o/m", map[string][]byte{"m.gguf": data})
	r := b.find("hf:o/m")
	b.server.Stall, b.client.Stall = true, 50*time.Millisecond
	_, err := b.store.Pull(context.Background(), b.client, r, nil)
	require.NoError(t, err)
	require.Equal(t, data, b.stored("m.gguf"))
	require.NotEmpty(t, b.pauses)
}

// TestPullWrongHash deletes what is not what was published.
func TestPullWrongHash(t *testing.T) {
	b := newBench(t)
	b.server.AddRepo("o/m", map[string][]byte{"m.gguf": hubserver.Content(fileBytes, 1)})
	other := hubserver.Content(fileBytes, 2)
	b.server.Files["/o/m/resolve/"+hubserver.Commit+"/m.gguf"] = other
	_, err := b.pull("hf:o/m")
	require.ErrorIs(t, err, hub.ErrDigest)
	require.ErrorContains(t, err, "m.gguf: the download is damaged")
	require.Empty(t, b.names(), "nothing is left that could continue")
}

// TestPullLies is about servers whose answers contradict themselves or what was published.
func TestPullLies(t *testing.T) {
	set := func(name, value string) func(http.Header) {
		return func(h http.Header) {
			if h.Get("Content-Range") != "" {
				h.Set(name, value)
			}
		}
	}
	for name, c := range map[string]struct {
		fault func(*hubserver.Server)
		want  string
	}{
		"another range":    {func(s *hubserver.Server) { s.Lie = set("Content-Range", "bytes 0-20486/20487") }, `"bytes 0-20486/20487" instead of bytes 3000-20486/20487`},
		"another size":     {func(s *hubserver.Server) { s.Lie = set("Content-Range", "bytes 3000-20486/30000") }, "instead of bytes 3000-20486/20487"},
		"no range":         {func(s *hubserver.Server) { s.Lie = set("Content-Range", "3000") }, "Content-Range is malformed"},
		"beyond its end":   {func(s *hubserver.Server) { s.Lie = set("Content-Range", "bytes 3000-99999/20487") }, "Content-Range is malformed"},
		"a huge number":    {func(s *hubserver.Server) { s.Lie = set("Content-Range", "bytes 3000-99999999999999999999/*") }, "Content-Range is malformed"},
		"more than stated": {func(s *hubserver.Server) { s.Extra = []byte("more") }, "more than the 20487 bytes of the file"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.server.AddRepo("o/m", map[string][]byte{"m.gguf": hubserver.Content(fileBytes, 1)})
			r := b.find("hf:o/m")
			c.fault(b.server)
			if b.server.Extra == nil {
				b.server.DropAfter, b.server.Drops = 3000, 1
			}
			_, err := b.store.Pull(context.Background(), b.client, r, nil)
			require.ErrorIs(t, err, hub.ErrServer)
			require.ErrorContains(t, err, c.want)
			models, _, err := b.store.Models()
			require.NoError(t, err)
			require.Empty(t, models)
		})
	}
	b := newBench(t)
	b.server.WrongSizes = true
	b.server.AddRepo("o/m", map[string][]byte{"m.gguf": hubserver.Content(fileBytes, 1)})
	_, err := b.pull("hf:o/m")
	require.ErrorContains(t, err, "20487 bytes instead of 20490")
}

// TestPullWithoutRanges begins again, and says so.
func TestPullWithoutRanges(t *testing.T) {
	b := newBench(t)
	data := hubserver.Content(fileBytes, 1)
	b.server.AddRepo("o/m", map[string][]byte{"m.gguf": data})
	r := b.find("hf:o/m")
	b.server.NoRanges, b.server.DropAfter, b.server.Drops = true, 3000, 1
	_, err := b.store.Pull(context.Background(), b.client, r, nil)
	require.NoError(t, err)
	require.Equal(t, data, b.stored("m.gguf"))
	require.Equal(t, []string{"the server sends files only as a whole: the download of m.gguf begins again"}, b.notes)
}

// TestPullOfAChangedFile changes a file without a hash between two connections: none of its first version remains,
// whether the server knows If-Range or not.
func TestPullOfAChangedFile(t *testing.T) {
	for _, ignoring := range []bool{false, true} {
		b := newBench(t)
		b.server.Files["/m.gguf"], b.server.ETag["/m.gguf"] = hubserver.Content(fileBytes, 1), `"one"`
		r := b.find(b.server.URL + "/m.gguf")
		b.server.DropAfter, b.server.Drops, b.server.IgnoreIf = 3000, 1, ignoring
		changed := hubserver.Content(fileBytes, 2)
		b.server.Before = func(r *http.Request) {
			if r.Header.Get("Range") != "" {
				b.server.Mu.Lock()
				b.server.Files["/m.gguf"], b.server.ETag["/m.gguf"] = changed, `"two"`
				b.server.Mu.Unlock()
			}
		}
		_, err := b.store.Pull(context.Background(), b.client, r, nil)
		require.NoError(t, err)
		require.Equal(t, changed, b.stored("m.gguf"))
		require.Equal(t, []string{"m.gguf has changed on the server: its download begins again"}, b.notes)
	}
	b := newBench(t) // another length
	b.server.Files["/m.gguf"], b.server.ETag["/m.gguf"] = hubserver.Content(fileBytes, 1), `"one"`
	r := b.find(b.server.URL + "/m.gguf")
	b.server.Files["/m.gguf"], b.server.ETag["/m.gguf"] = hubserver.Content(100, 1), `"two"`
	_, err := b.store.Pull(context.Background(), b.client, r, nil)
	require.ErrorContains(t, err, "it has 100 bytes instead of 20487; the same command begins again")
	m, err := b.pull(b.server.URL + "/m.gguf")
	require.NoError(t, err)
	require.Equal(t, int64(100), m.Bytes)
}

// TestRedirects follows a redirect to another host without the token, and refuses one that loses encryption.
func TestRedirects(t *testing.T) {
	b := newBench(t)
	b.server.Elsewhere = hubserver.New(t)
	data := hubserver.Content(fileBytes, 1)
	b.server.AddRepo("o/m", map[string][]byte{"m.gguf": data})
	_, err := b.pull("hf:o/m")
	require.NoError(t, err)
	require.Equal(t, data, b.stored("m.gguf"))
	require.Equal(t, 3, b.server.Sent("Authorization", "Bearer hf_secret"))
	require.NotEmpty(t, b.server.Elsewhere.Requests)
	require.Zero(t, b.server.Elsewhere.Sent("Authorization", "hf_secret"))
	require.Zero(t, b.server.Elsewhere.Sent("Referer", "http"))

	r := b.find(b.server.URL + "/o/m/resolve/" + hubserver.Commit + "/m.gguf") // an address of hf: has a hash, too
	require.Equal(t, "sha256:"+hubserver.SHA256(data), r.Files[0].Digest)
	require.Equal(t, 3, b.server.Sent("Authorization", "hf_secret"))

	b.server.Elsewhere.Status = []int{404}
	_, err = b.tryFind(b.server.URL + "/o/m/resolve/" + hubserver.Commit + "/m.gguf")
	require.NotContains(t, err.Error(), "signature")
}

// TestNamesOfServers is about names that would leave the directory or cannot be files.
func TestNamesOfServers(t *testing.T) {
	for _, name := range []string{"../m.gguf", "a/../../m.gguf", "/etc/m.gguf", "a\x00.gguf", "a\x1b[31m.gguf", `a\b.gguf`, "nul.gguf", ".hidden.gguf", "-rf.gguf", "a\u202e.gguf", strings.Repeat("a", 300) + ".gguf"} {
		b := newBench(t)
		b.server.AddRepo("o/m", map[string][]byte{name: hubserver.Content(100, 1)})
		_, err := b.pull("hf:o/m")
		if strings.HasSuffix(name, "/m.gguf") { // only the last element of the path names the file here
			require.NoError(t, err, "%q", name)
			require.Equal(t, []string{"m.gguf", "m.model.json"}, b.names())
			continue
		}
		require.ErrorIs(t, err, hub.ErrName, "%q", name)
		require.NotContains(t, err.Error(), "\x1b")
	}
	b := newBench(t)
	b.server.AddRepo("o/m", map[string][]byte{"config.json": []byte("{}"), "model.safetensors": hubserver.Content(10, 1), "../evil.json": []byte("{}"), "a\x00.json": []byte("{}")})
	_, err := b.pull("hf:o/m")
	require.NoError(t, err)
	require.Equal(t, []string{"m", "m.model.json"}, b.names())
	for _, bad := range []string{"hf:o", "hf:o/..", "hf:o/m:../x", "hf:o/m/x", "ollama:../x", "ollama:a/b/c/d", "ollama:x:a b", "https://", "ftp://x/y.gguf", "m", "hf:o/m\x00"} {
		_, err := b.tryFind(bad)
		require.ErrorIs(t, err, hub.ErrReference, bad)
	}
	_, err = b.tryFind(b.server.URL + "/dir/")
	require.ErrorIs(t, err, hub.ErrReference)
	for _, bad := range []string{"", ".", "..", "a/b", "a\x00", "con", "NUL.gguf", "a:b", " a", "a ", "a.", "x\ny"} {
		require.ErrorIs(t, hub.CheckName(bad), hub.ErrName, "%q", bad)
		_, err := b.store.Remove(bad)
		require.ErrorIs(t, err, hub.ErrName, "%q", bad)
	}
}

// TestDowngradesAreRefused is about a server with encryption that redirects to one without: to itself, to another host,
// and back again. Nothing is asked of the second one, and the token stays with the first.
func TestDowngradesAreRefused(t *testing.T) {
	b := newBench(t)
	var mu sync.Mutex
	var reached []string // without encryption
	plain := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		reached = append(reached, r.URL.Path)
	}))
	defer plain.Close()
	var asked []string // with encryption, with what authorization
	target := ""
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Path+" "+r.Header.Get("Authorization"))
		if strings.HasPrefix(r.URL.Path, "/again") {
			http.Redirect(w, r, target, http.StatusFound)
			return
		}
		http.Redirect(w, r, "/again"+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer secure.Close()
	b.client.Endpoint, b.client.Transport = secure.URL, secure.Client().Transport
	for _, target = range []string{plain.URL + "/m.gguf", "http://" + strings.TrimPrefix(secure.URL, "https://") + "/m.gguf"} {
		for _, reference := range []string{"hf:o/m", secure.URL + "/m.gguf"} {
			asked = nil
			_, err := b.pull(reference)
			require.ErrorIs(t, err, hub.ErrDowngrade, reference)
			require.ErrorContains(t, err, "redirects to http, which is not encrypted")
			require.Len(t, asked, 2, "an answer that cannot change is asked for once: %s", asked)
			for _, one := range asked {
				require.Equal(t, reference == "hf:o/m", strings.HasSuffix(one, "Bearer hf_secret"), one)
			}
		}
	}
	require.Empty(t, reached)
	require.Empty(t, b.pauses)
}

// TestProxy asks through the proxy of the environment for hosts that it is for, also for connections with encryption,
// whose content the proxy does not see. It never gets the token.
func TestProxy(t *testing.T) {
	if os.Getenv(proxied) == "" { // package http reads the environment once in a process
		var mu sync.Mutex
		var asked []string
		data := hubserver.Content(fileBytes, 1)
		origin := hubserver.New(t)
		origin.Files["/m.gguf"] = data
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			asked = append(asked, strings.TrimSpace(r.Method+" "+r.Host+" "+r.Header.Get("Authorization")))
			mu.Unlock()
			if r.Method == http.MethodConnect || r.URL.Host != "models.test" {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			origin.Config.Handler.ServeHTTP(w, r)
		}))
		defer proxy.Close()
		command := exec.Command(os.Args[0], "-test.run", "^TestProxy$")
		command.Env = append(os.Environ(), proxied+"="+hubserver.SHA256(data), "HTTP_PROXY="+proxy.URL, "http_proxy="+proxy.URL, "HTTPS_PROXY="+proxy.URL, "https_proxy="+proxy.URL, "NO_PROXY=", "no_proxy=")
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s", out)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{"GET models.test", "CONNECT hub.test:443"}, slices.Compact(asked))
		return
	}
	b := newBench(t)
	_, err := b.pull("http://models.test/m.gguf")
	require.NoError(t, err)
	require.Equal(t, os.Getenv(proxied), hubserver.SHA256(b.stored("m.gguf")))
	b.client.Endpoint = "https://hub.test"
	_, err = b.pull("hf:o/m")
	require.ErrorContains(t, err, "Bad Gateway")
}

// proxied is the variable of the process that TestProxy starts: the hash of what it downloads.
const proxied = "LLMRUN_TEST_PROXIED"

// TestPullOnAFullDisk keeps what was written, and goes on when there is room.
func TestPullOnAFullDisk(t *testing.T) {
	b := newBench(t)
	data := hubserver.Content(600<<10, 1)
	b.server.AddRepo("o/m", map[string][]byte{"m.gguf": data})
	full, disk := true, b.store.FS
	b.store.FS = vfs.NewFaulty(disk, func(op vfs.Op) error {
		if full && op.Kind == vfs.OpWrite && op.Offset >= 256<<10 {
			return syscall.ENOSPC
		}
		return nil
	})
	_, err := b.pull("hf:o/m")
	require.True(t, vfs.IsDiskFull(err))
	require.ErrorContains(t, err, "free space in models, and give the same command: it continues")
	_, unfinished, err := b.store.Models()
	require.NoError(t, err)
	require.Equal(t, int64(256<<10), unfinished[0].Done)
	full = false
	_, err = b.pull("hf:o/m")
	require.NoError(t, err)
	require.Equal(t, data, b.stored("m.gguf"))
	require.Equal(t, 1, b.server.Sent("Range", fmt.Sprintf("bytes=%d-", 256<<10)))
}

// TestPullInterrupted stops a download: what is here is kept, and the next call asks for the rest only.
func TestPullInterrupted(t *testing.T) {
	b := newBench(t)
	data := hubserver.Content(1<<20, 1)
	b.server.AddRepo("o/m", map[string][]byte{"m.gguf": data})
	r := b.find("hf:o/m")
	r.Arguments = "--name m"
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(context.Background())
	_, err := b.store.Pull(ctx, b.client, r, func(done, _ int64) {
		if done >= 512<<10 {
			cancel(stopped)
		}
	})
	require.ErrorIs(t, err, stopped)
	_, unfinished, err := b.store.Models()
	require.NoError(t, err)
	require.Equal(t, []hub.Unfinished{{Name: "m", From: "hf:o/m --name m", Done: unfinished[0].Done, Bytes: 1 << 20}}, unfinished)
	require.GreaterOrEqual(t, unfinished[0].Done, int64(512<<10))
	require.Equal(t, 1<<20-unfinished[0].Done, b.store.Missing(r))
	_, err = b.pull("hf:o/m")
	require.NoError(t, err)
	require.Equal(t, data, b.stored("m.gguf"))
	require.Equal(t, 1, b.server.Sent("Range", fmt.Sprintf("bytes=%d-", unfinished[0].Done)))
}

// TestPullFindsDamage changes a byte of what an interrupted download left: the hash of the whole file finds it.
func TestPullFindsDamage(t *testing.T) {
	b := newBench(t)
	data := hubserver.Content(600<<10, 1)
	b.server.AddRepo("o/m", map[string][]byte{"m.gguf": data})
	r := b.find("hf:o/m")
	ctx, cancel := context.WithCancelCause(context.Background())
	_, err := b.store.Pull(ctx, b.client, r, func(done, _ int64) {
		if done >= 256<<10 {
			cancel(errors.New("stopped"))
		}
	})
	require.Error(t, err)
	f, err := vfs.Reopen(b.store.FS, "models/m.gguf.partial")
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{data[100] ^ 1}, 100)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = b.pull("hf:o/m")
	require.ErrorIs(t, err, hub.ErrDigest)
	_, err = b.pull("hf:o/m")
	require.NoError(t, err)
	require.Equal(t, data, b.stored("m.gguf"))
}

// TestPullAtPowerCuts cuts the power at every operation of the disk, with none, some or all of what was not synced. The
// next call ends with the right model, downloads nothing again that had a checkpoint, and nothing is taken for a model
// that is none.
func TestPullAtPowerCuts(t *testing.T) {
	const size, every = 600 << 10, 256 << 10 // of which a write has every bytes
	b := newBench(t)
	b.store.Checkpoint = every
	files := map[string][]byte{"config.json": []byte(`{"a":1}`), "model.safetensors": hubserver.Content(size, 1)}
	b.server.AddRepo("o/m", files)
	r := b.find("hf:o/m")
	cut := errors.New("power cut")
	for k, ended := int64(0), false; !ended; k++ {
		for seed, keep := range []float64{0, 0.5, 1} {
			disk := vfs.NewMem()
			b.store.FS = vfs.NewFaulty(disk, func(op vfs.Op) error {
				if op.Index >= k {
					return cut
				}
				return nil
			})
			_, err := b.store.Pull(context.Background(), b.client, r, nil)
			ended = err == nil
			b.store.FS = disk.CrashClone(keep, uint64(seed)+uint64(k))
			models, unfinished, err := b.store.Models()
			require.NoError(t, err, "cut at %d", k)
			if len(models) == 1 {
				require.Equal(t, files["model.safetensors"], b.stored("m/model.safetensors"), "cut at %d", k)
			}
			durable := int64(0)
			if len(unfinished) == 1 {
				durable = unfinished[0].Done
			}
			b.server.Requests = nil
			m, err := b.store.Pull(context.Background(), b.client, r, nil)
			require.NoError(t, err, "cut at %d, keep %v", k, keep)
			require.Equal(t, "models/m", m.Path)
			for name, data := range files {
				require.Equal(t, data, b.stored("m/"+name), "cut at %d", k)
			}
			if durable > int64(len(files["config.json"])) {
				at := fmt.Sprintf("bytes=%d-", durable-int64(len(files["config.json"])))
				require.True(t, durable == r.Bytes() || b.server.Sent("Range", at) > 0, "cut at %d: %s was not asked for", k, at)
			}
			require.Equal(t, []string{"m", "m.model.json"}, b.names(), "cut at %d", k)
		}
		require.Less(t, k, int64(300))
	}
}

// TestPullTwice lets one of two processes pull a model.
func TestPullTwice(t *testing.T) {
	b := newBench(t)
	b.server.AddRepo("o/m", map[string][]byte{"m.gguf": hubserver.Content(fileBytes, 1)})
	r := b.find("hf:o/m")
	tried := false
	_, err := b.store.Pull(context.Background(), b.client, r, func(int64, int64) {
		if !tried {
			tried = true
			_, err := b.store.Pull(context.Background(), b.client, r, nil)
			require.ErrorIs(t, err, vfs.ErrLocked)
			require.ErrorContains(t, err, "m: another process downloads or deletes this model now")
			_, err = b.store.Remove("m")
			require.ErrorIs(t, err, vfs.ErrLocked)
		}
	})
	require.NoError(t, err)
	require.True(t, tried)
}

// TestPullKeepsWhatIsThere neither replaces a model from elsewhere nor a file of the user.
func TestPullKeepsWhatIsThere(t *testing.T) {
	b := newBench(t)
	b.server.AddRepo("o/m", map[string][]byte{"m.gguf": hubserver.Content(100, 1)})
	b.server.AddRepo("p/m", map[string][]byte{"m.gguf": hubserver.Content(200, 1)})
	_, err := b.pull("hf:o/m")
	require.NoError(t, err)
	_, err = b.pull("hf:p/m")
	require.ErrorIs(t, err, hub.ErrExists)
	require.ErrorContains(t, err, "m is there already, from hf:o/m; llmrun models rm m deletes it, and --name gives this one another name")
	other := b.find("hf:p/m")
	require.NoError(t, other.Rename("mine"))
	m, err := b.store.Pull(context.Background(), b.client, other, nil)
	require.NoError(t, err)
	require.Equal(t, "models/mine.gguf", m.Path)
	require.ErrorIs(t, other.Rename("../x"), hub.ErrName)

	require.NoError(t, vfs.WriteFile(b.store.FS, "models/user.gguf", []byte("mine")))
	third := b.find("hf:o/m")
	require.NoError(t, third.Rename("user"))
	_, err = b.store.Pull(context.Background(), b.client, third, nil)
	require.ErrorContains(t, err, "models/user.gguf is there already, and llmrun has not pulled it")
	require.Equal(t, "mine", string(b.stored("user.gguf")))
	_, err = b.store.Remove("user") // deletes the unfinished pull
	require.NoError(t, err)
	_, err = b.store.Remove("none")
	require.ErrorIs(t, err, hub.ErrNoModel)
}

// TestReplace makes a pack the model.
func TestReplace(t *testing.T) {
	b := newBench(t)
	b.server.AddRepo("o/m", map[string][]byte{"m.gguf": hubserver.Content(100, 1)})
	r := b.find("hf:o/m")
	_, err := b.pull("hf:o/m")
	require.NoError(t, err)
	require.NoError(t, vfs.WriteFile(b.store.FS, "models/m.pack", []byte("packed")))
	m, err := b.store.Replace("m", "m.pack")
	require.NoError(t, err)
	require.Equal(t, hub.Model{Name: "m", Path: "models/m.pack", Bytes: 6, Source: hub.SourcePulled, From: "hf:o/m"}, m)
	require.Equal(t, []string{"m.model.json", "m.pack"}, b.names())
	again, err := b.store.Pull(context.Background(), b.client, r, nil)
	require.NoError(t, err)
	require.Equal(t, m, again)
	freed, err := b.store.Remove("m")
	require.NoError(t, err)
	require.Equal(t, int64(6), freed)
	require.Empty(t, b.names())
}
