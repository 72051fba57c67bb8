package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// testPuller has one model, which is the bundled one.
type testPuller struct {
	before  []Model
	removed []string
	started chan struct{} // if set, a download starts, and ends with its context
	left    chan error
	failed  error
}

func (p *testPuller) model(name string) Model {
	m := demoModel()
	m.Name, m.Names = name, []string{"library/" + name}
	return m
}

func (p *testPuller) Models() ([]Model, error) { return p.before, nil }

func (p *testPuller) Pull(ctx context.Context, name string, progress func(PullProgress)) (Model, error) {
	digest := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	if p.started != nil {
		close(p.started)
		<-ctx.Done()
		p.left <- context.Cause(ctx)
		return Model{}, context.Cause(ctx)
	}
	for _, done := range []int64{0, 5, 6, 10} {
		progress(PullProgress{"fox.gguf", digest, done, 10})
	}
	progress(PullProgress{"dir/config.json", "", 3, 3})
	return p.model("fox"), p.failed
}

func (p *testPuller) Remove(name string) error {
	p.removed = append(p.removed, name)
	return nil
}

// here returns a request of a client on this machine.
func here(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:1234"
	return r
}

func answered(s *Server, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// TestPull downloads a model as ollama's clients do, and uses it by each of its names until it is deleted.
func TestPull(t *testing.T) {
	puller := &testPuller{}
	s := newDemo(func(o *Options) { o.Puller = puller })
	defer s.Close()
	w := answered(s, here("POST", "/api/pull", `{"model":"fox:1b","insecure":false}`))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "application/x-ndjson", w.Header().Get("Content-Type"))
	const digest = `"digest":"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"`
	require.Equal(t, strings.Join([]string{
		`{"status":"pulling manifest"}`, `{"status":"pulling 0123456789ab",` + digest + `,"total":10}`,
		`{"status":"pulling 0123456789ab",` + digest + `,"total":10,"completed":10}`, `{"status":"pulling config.json","total":3,"completed":3}`,
		`{"status":"verifying sha256 digest"}`, `{"status":"writing manifest"}`, `{"status":"success"}`, "",
	}, "\n"), w.Body.String())
	w = answered(s, here("POST", "/api/pull", `{"name":"fox","stream":false}`))
	require.JSONEq(t, `{"status":"success"}`, w.Body.String())
	for _, name := range []string{"fox", "fox:latest", "fox:1b", "library/fox"} {
		require.Equal(t, strings.TrimSuffix(name, ":latest"), postOK(t, s, "/api/generate", `{"model":"`+name+`","prompt":"Hi","stream":false,"options":{"num_predict":1}}`)["model"], name)
	}
	require.Len(t, openModels(s), 1, "the names mean one model")
	require.Equal(t, "demo", postOK(t, s, "/v1/chat/completions", `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":1}`)["model"], "without a name")

	require.Equal(t, http.StatusOK, post(s, "/api/copy", `{"source":"fox","destination":"copy"}`).Code)
	require.Equal(t, http.StatusOK, answered(s, here("DELETE", "/api/delete", `{"model":"copy"}`)).Code)
	require.Empty(t, puller.removed, "a copy is a name")
	fox, err := s.models.find("fox")
	require.NoError(t, err)
	_, err = s.models.use(t.Context(), fox.entry)
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, answered(s, here("DELETE", "/api/delete", `{"model":"fox"}`)).Code, "in use")
	s.models.release(fox.entry)
	require.Equal(t, http.StatusForbidden, answered(s, httptest.NewRequest("DELETE", "http://localhost/api/delete", strings.NewReader(`{"model":"fox"}`))).Code)
	require.Equal(t, http.StatusOK, answered(s, here("DELETE", "/api/delete", `{"model":"library/fox"}`)).Code)
	require.Equal(t, []string{"fox"}, puller.removed)
	for _, name := range []string{"fox", "fox:1b", "library/fox"} {
		require.Equal(t, http.StatusNotFound, post(s, "/api/generate", `{"model":"`+name+`"}`).Code, name)
	}
	require.Len(t, openModels(s), 1, "demo")
}

// TestPulledModelsAreOffered starts a server with a model that was downloaded before. It does not replace one that has the same name.
func TestPulledModelsAreOffered(t *testing.T) {
	puller := &testPuller{}
	other := puller.model("demo")
	other.Path = "elsewhere"
	puller.before = []Model{puller.model("fox"), other}
	s := newDemo(func(o *Options) { o.Puller = puller })
	defer s.Close()
	var names []any
	w := answered(s, here("GET", "/api/tags", ""))
	var tags map[string][]map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &tags))
	for _, m := range tags["models"] {
		names = append(names, m["name"])
	}
	require.Equal(t, []any{"demo", "fox", "library/fox"}, names)
	require.Equal(t, http.StatusForbidden, answered(s, here("DELETE", "/api/delete", `{"model":"demo"}`)).Code)
}

// TestPullIsRefused checks errors before and within a stream, and who may pull.
func TestPullIsRefused(t *testing.T) {
	puller := &testPuller{failed: fmt.Errorf("%w: no such model", llmrun.ErrOptions)}
	s := newDemo(func(o *Options) { o.Puller = puller })
	defer s.Close()
	w := answered(s, here("POST", "/api/pull", `{"model":"x"}`))
	require.True(t, strings.HasSuffix(w.Body.String(), `{"error":"no such model"}`+"\n"), w.Body.String())
	w = answered(s, here("POST", "/api/pull", `{"model":"x","stream":false}`))
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.JSONEq(t, `{"error":"no such model"}`, w.Body.String())
	require.Equal(t, http.StatusNotFound, post(s, "/api/generate", `{"model":"fox"}`).Code)
	require.Equal(t, http.StatusBadRequest, answered(s, here("POST", "/api/pull", `{}`)).Code)
	w = post(s, "/api/pull", `{"model":"x"}`) // from another machine
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Contains(t, w.Body.String(), "--api-key-file")

	keyed := newDemo(func(o *Options) { o.Puller, o.APIKeys = &testPuller{}, []string{"k"} })
	defer keyed.Close()
	require.Equal(t, http.StatusUnauthorized, answered(keyed, here("POST", "/api/pull", `{"model":"x"}`)).Code)
	r := httptest.NewRequest("POST", "http://localhost/api/pull", strings.NewReader(`{"model":"x"}`))
	r.Header.Set("Authorization", "Bearer k")
	require.True(t, strings.HasSuffix(answered(keyed, r).Body.String(), `{"status":"success"}`+"\n"))
}

// TestPullEndsWithItsClient leaves a download, which ends. While it runs there is no other one.
func TestPullEndsWithItsClient(t *testing.T) {
	puller := &testPuller{started: make(chan struct{}), left: make(chan error, 1)}
	s := newDemo(func(o *Options) { o.Puller = puller })
	defer s.Close()
	web := httptest.NewServer(s)
	defer web.Close()
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, web.URL+"/api/pull", strings.NewReader(`{"model":"x"}`))
	require.NoError(t, err)
	answer, err := web.Client().Do(r)
	require.NoError(t, err)
	line, err := bufio.NewReader(answer.Body).ReadString('\n')
	require.NoError(t, err)
	require.JSONEq(t, `{"status":"pulling manifest"}`, line)
	<-puller.started
	w := answered(s, here("POST", "/api/pull", `{"model":"y","stream":false}`))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "30", w.Header().Get("Retry-After"))
	leave()
	require.ErrorIs(t, <-puller.left, context.Canceled)
	require.NoError(t, answer.Body.Close())
}
