package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/hub"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/internal/testutil/hubserver"
	"github.com/llmrun/llmrun/serve"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestClientReference checks what the names of clients mean, and that they do not choose the server.
func TestClientReference(t *testing.T) {
	for name, want := range map[string]string{
		"llama3.2:1b": "ollama:llama3.2:1b", "llama3.2": "ollama:llama3.2", "user/fox:q4": "ollama:user/fox:q4",
		"registry.ollama.ai/library/fox": "ollama:fox", "ollama:fox": "ollama:fox",
		"hf.co/o/m": "hf:o/m", "hf.co/o/m:Q4_0": "hf:o/m:Q4_0", "huggingface.co/o/m": "hf:o/m", "hf:o/m": "hf:o/m",
	} {
		ref, err := clientReference(name)
		require.NoError(t, err, name)
		require.Equal(t, want, ref.String())
	}
	for _, name := range []string{"http://10.0.0.1/fox.gguf", "10.0.0.1:80/a/fox", "ollama:http://host/a/b", "hf:http://x", "hf.co/x", "../fox", "fox/../x", "/etc/fox", "a b", ""} {
		_, err := clientReference(name)
		require.ErrorIs(t, err, llmrun.ErrOptions, name)
	}
}

// TestServePulls downloads the demo model for a client of a server: the first client leaves, and the second one gets the rest. The model answers
// at once, and another server offers it when it starts.
func TestServePulls(t *testing.T) {
	server := hubserver.New(t)
	files := map[string][]byte{}
	dir := hubmodel.Dir("../..")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	small := int64(0) // bytes of the files before the weights
	for _, e := range entries {
		files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		if e.Name() < "model.safetensors" {
			small += int64(len(files[e.Name()]))
		}
	}
	server.AddRepo("o/fox", files)
	client := &hub.Client{Endpoint: server.URL, Pause: func(context.Context, time.Duration) error { return nil }, Notify: func(string) {}}
	p := &puller{client, &hub.Store{FS: vfs.OSOwn(), Dir: t.TempDir(), Checkpoint: 1 << 20}, func(*serve.Model) error { return nil }}
	v := &serveFlags{}
	v.cache.off = true
	o, err := v.options(&cli.Streams{})
	require.NoError(t, err)
	o.Puller, o.Logger = p, nil
	s, err := serve.New(o)
	require.NoError(t, err)
	defer s.Close()
	ask := func(s *serve.Server, ctx context.Context, path, body string) string {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+path, strings.NewReader(body))
		r.RemoteAddr = "127.0.0.1:1"
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Body.String()
	}

	ctx, leave := context.WithCancel(t.Context())
	server.DropAfter, server.Drops = 8<<20, 1
	server.Before = func(r *http.Request) {
		if r.Header.Get("Range") != "" { // the connection that would bring the rest
			leave()
			<-r.Context().Done() // until the client has closed it
		}
	}
	left := ask(s, ctx, "/api/pull", `{"model":"hf.co/o/fox"}`)
	require.Contains(t, left, `{"status":"pulling manifest"}`)
	require.NotContains(t, left, "success")
	_, unfinished, err := p.store.Models()
	require.NoError(t, err)
	require.Len(t, unfinished, 1)
	require.GreaterOrEqual(t, unfinished[0].Done, int64(7<<20))

	server.Before = nil
	before := len(server.Requests)
	lines := ask(s, t.Context(), "/api/pull", `{"model":"hf.co/o/fox"}`)
	require.True(t, strings.HasSuffix(lines, `{"status":"success"}`+"\n"), lines)
	require.Contains(t, lines, `"status":"pulling `+hubserver.SHA256(files["model.safetensors"])[:12])
	require.True(t, slices.ContainsFunc(server.Requests[before:], func(r *http.Request) bool {
		return r.Header.Get("Range") == fmt.Sprintf("bytes=%d-", unfinished[0].Done-small)
	}), "it goes on where the first one was left")
	answer := ask(s, t.Context(), "/api/generate", `{"model":"hf.co/o/fox","prompt":"Hi","stream":false,"options":{"num_predict":2,"temperature":0}}`)
	require.Contains(t, answer, `"done_reason":"length"`)

	again, err := serve.New(o)
	require.NoError(t, err)
	defer again.Close()
	require.Contains(t, ask(again, t.Context(), "/api/show", `{"model":"hf.co/o/fox"}`), `"general.architecture":"llama"`)
	require.Contains(t, ask(again, t.Context(), "/api/show", `{"model":"fox"}`), `"general.architecture":"llama"`)
}
