package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
)

// adapted returns a server with the bundled model and two adapters.
func adapted(t *testing.T, change func(*Options)) *Server {
	t.Helper()
	dir := t.TempDir()
	var adapters []string
	for seed, name := range []string{"style", "facts"} {
		path := filepath.Join(dir, name)
		require.NoError(t, hubmodel.WriteAdapter(path, uint64(seed)))
		adapters = append(adapters, name+"="+path)
	}
	s := newDemo(func(o *Options) {
		o.Models[0].Options.Adapters, o.Models[0].Options.Context = adapters, 2048
		if change != nil {
			change(o)
		}
	})
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// TestAdaptersAreModels offers adapters as models of their own: listed with the model that they change, found by both names, computed as the
// library does, and kept as the model is.
func TestAdaptersAreModels(t *testing.T) {
	s := adapted(t, nil)
	request := func(model string) string {
		return fmt.Sprintf(`{"model":%q,"prompt":"Once upon a time","temperature":0,"max_tokens":24}`, model)
	}
	texts := map[string]string{}
	for _, model := range []string{"", "demo", "demo:style", "style", "demo:style:latest", "facts"} {
		answer := postOK(t, s, "/v1/completions", request(model))
		texts[model] = at(answer, "choices", 0, "text").(string)
	}
	require.Equal(t, texts[""], texts["demo"])
	require.Equal(t, texts["demo:style"], texts["style"])
	require.Equal(t, texts["demo:style"], texts["demo:style:latest"])
	require.NotEqual(t, texts["demo"], texts["style"])
	require.NotEqual(t, texts["facts"], texts["style"])

	o := &s.models.all[0].Model
	engine, err := llmrun.Open(o.Path, o.Options)
	require.NoError(t, err)
	defer engine.Close()
	session, err := engine.NewSession()
	require.NoError(t, err)
	require.NoError(t, session.UseAdapters("style"))
	var want strings.Builder
	for p, err := range session.Generate(t.Context(), "Once upon a time", llmrun.GenerateOptions{MaxTokens: 24}) {
		require.NoError(t, err)
		want.WriteString(p.Text)
	}
	require.Equal(t, want.String(), texts["style"])

	get := func(path string) string {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody))
		require.Equal(t, http.StatusOK, w.Code)
		return w.Body.String()
	}
	var list struct{ Data []openAIModel }
	require.NoError(t, json.Unmarshal([]byte(get("/v1/models")), &list))
	require.Len(t, list.Data, 3)
	require.Equal(t, []string{"demo", "demo:style", "demo:facts"}, []string{list.Data[0].ID, list.Data[1].ID, list.Data[2].ID})
	require.Equal(t, []string{"", "demo", "demo"}, []string{list.Data[0].Parent, list.Data[1].Parent, list.Data[2].Parent})
	require.Contains(t, get("/v1/models/style"), `"id":"demo:style"`)
	require.Contains(t, get("/api/tags"), `"demo:style"`)

	require.Equal(t, http.StatusOK, post(s, "/api/copy", `{"source":"facts","destination":"copied"}`).Code)
	require.Equal(t, texts["facts"], at(postOK(t, s, "/v1/completions", request("copied")), "choices", 0, "text"))
	for path, body := range map[string]string{
		"/v1/completions": request("demo:none"), "/v1/embeddings": `{"model":"style","input":"x"}`, "/api/embed": `{"model":"demo:style","input":"x"}`,
		"/v1/rerank": `{"model":"style","query":"x","documents":["y"]}`, "/llmrun/summaries": `{"model":"style","text":"x"}`,
	} {
		w := post(s, path, body)
		require.Contains(t, []int{http.StatusBadRequest, http.StatusNotFound}, w.Code, path)
		require.Contains(t, w.Body.String(), map[bool]string{true: "no such model", false: "needs demo"}[path == "/v1/completions"], path)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "http://localhost/api/delete", strings.NewReader(`{"model":"demo:style"}`)))
	require.Equal(t, http.StatusForbidden, w.Code, w.Body)

	m := demoModel()
	m.Options.Adapters = []string{"style=x"}
	_, err = New(Options{Models: []Model{m, {Name: "demo:style", Path: "y"}}})
	require.ErrorContains(t, err, `"demo:style"`)
}

// TestAdaptersSharePasses answers requests with different adapters at the same time: their texts are those that they have alone, in fewer
// passes than tokens.
func TestAdaptersSharePasses(t *testing.T) {
	const tokens = 48
	s := adapted(t, nil)
	models := []string{"demo", "demo:style", "demo:facts", "demo:style"}
	text := func(model string) string {
		answer := postOK(t, s, "/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":"The fox","temperature":0.7,"seed":5,"max_tokens":%d,"logit_bias":{%s}}`, model, tokens, endBias(t)))
		return at(answer, "choices", 0, "text").(string)
	}
	alone := map[string]string{}
	for _, model := range models {
		alone[model] = text(model)
	}
	before, generated := passesOf(t, s), metricOf(t, s, `llmrun_tokens_total{kind="generated"}`)
	together := make([]string, len(models))
	var running sync.WaitGroup
	for i, model := range models {
		running.Go(func() { together[i] = text(model) })
	}
	running.Wait()
	for i, model := range models {
		require.Equal(t, alone[model], together[i], model)
	}
	require.Equal(t, len(models)*tokens, metricOf(t, s, `llmrun_tokens_total{kind="generated"}`)-generated)
	require.Less(t, passesOf(t, s)-before, len(models)*tokens*3/4)
}

// TestKeptPromptsKnowTheirAdapters asks the model and an adapter of it about the same document, in one process and in the next: each takes
// the keys and values of its own weights only. A saved conversation goes on with the adapter of the request.
func TestKeptPromptsKnowTheirAdapters(t *testing.T) {
	dir := t.TempDir()
	document := strings.Repeat("The fox went into the wood and came back. ", 30)
	messages := `"messages":[{"role":"user","content":"` + document + `"}],"temperature":0,"max_tokens":6`
	ask := func(s *Server, model, session string) (text string, cached int) {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/v1/chat/completions", strings.NewReader(fmt.Sprintf(`{"model":%q,%s}`, model, messages)))
		if session != "" {
			r.Header.Set(sessionHeader, session)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		var answer map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
		return at(answer, "choices", 0, "message", "content").(string), int(at(answer, "usage", "prompt_tokens_details", "cached_tokens").(float64))
	}
	kept := func(o *Options) { o.Models[0].Options.Cache.KVDir = dir }
	s := adapted(t, kept)
	texts := map[string]string{}
	for _, model := range []string{"demo", "demo:style"} {
		text, cached := ask(s, model, "")
		require.Zero(t, cached, model)
		texts[model] = text
		again, cached := ask(s, model, "")
		require.Positive(t, cached, model)
		require.Equal(t, text, again)
	}
	require.NotEqual(t, texts["demo"], texts["demo:style"])
	for _, model := range []string{"demo:style", "demo", "demo:style"} {
		text, _ := ask(s, model, "talk")
		require.Equal(t, texts[model], text, model)
	}
	require.NoError(t, s.Close())

	s = adapted(t, kept)
	for _, model := range []string{"demo:style", "demo"} {
		text, cached := ask(s, model, "")
		require.Positive(t, cached, model)
		require.Equal(t, texts[model], text)
	}
	_, cached := ask(s, "demo:facts", "")
	require.Zero(t, cached)
}
