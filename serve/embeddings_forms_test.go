package serve

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
)

// encoders returns a server with an encoder, a reranker and the bundled model.
func encoders(t *testing.T) *Server {
	t.Helper()
	dir := t.TempDir()
	words := strings.Fields("a the fox bird hen is red near lake")
	require.NoError(t, hubmodel.Encoder{Seed: 1, Words: words, MaxToken: 32}.Write(filepath.Join(dir, "encoder")))
	require.NoError(t, hubmodel.Encoder{Seed: 2, Words: words, MaxToken: 32, Scores: true}.Write(filepath.Join(dir, "ranker")))
	o := Options{Models: []Model{demoModel()}, KeepAlive: -1}
	for _, name := range []string{"encoder", "ranker"} {
		o.Models = append(o.Models, Model{Name: name, Path: filepath.Join(dir, name), Options: llmrun.Options{Threads: 1}})
	}
	s, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// lengthOf returns the length of a vector.
func lengthOf(vector any) float64 {
	sum := 0.0
	for _, x := range vector.([]any) {
		sum += x.(float64) * x.(float64)
	}
	return math.Sqrt(sum)
}

// TestEmbeddingsOfAnEncoder asks an encoder in every form of input, and expects the same vectors and counts.
func TestEmbeddingsOfAnEncoder(t *testing.T) {
	s := encoders(t)
	of := func(input string) (data []any) {
		answer := postOK(t, s, "/v1/embeddings", fmt.Sprintf(`{"model":"encoder","input":%s}`, input))
		require.EqualValues(t, at(answer, "usage", "prompt_tokens"), at(answer, "usage", "total_tokens"))
		return at(answer, "data").([]any)
	}
	e, err := llmrun.Open(s.options.Models[1].Path, llmrun.Options{Threads: 1})
	require.NoError(t, err)
	defer e.Close()
	ids, err := e.EncodeText("the fox", llmrun.EncodeOptions{Special: true})
	require.NoError(t, err)
	list, err := json.Marshal(ids)
	require.NoError(t, err)
	want := at(of(`"the fox"`), 0, "embedding")
	require.Equal(t, want, at(of(`["a hen","the fox"]`), 1, "embedding"))
	require.Equal(t, want, at(of(string(list)), 0, "embedding"))
	require.Equal(t, want, at(of(fmt.Sprintf("[[2,3],%s]", list)), 1, "embedding"))
	require.EqualValues(t, len(ids), at(postOK(t, s, "/v1/embeddings", `{"model":"encoder","input":"the fox"}`), "usage", "prompt_tokens"))
	require.Len(t, of("["+strings.Repeat(`"a",`, 2047)+`"a"]`), 2048)
}

// TestEmbeddingsRefuse sends what cannot be described, and expects the error in the form of the API.
func TestEmbeddingsRefuse(t *testing.T) {
	s := encoders(t)
	long := strings.Repeat("fox ", 40)
	for _, c := range []struct {
		body   string
		status int
		param  any
	}{
		{`{"model":"encoder"}`, 400, "input"},
		{`{"model":"encoder","input":null}`, 400, "input"},
		{`{"model":"encoder","input":""}`, 400, "input"},
		{`{"model":"encoder","input":["fox",""]}`, 400, "input"},
		{`{"model":"encoder","input":[]}`, 400, "input"},
		{`{"model":"encoder","input":[[]]}`, 400, "input"},
		{`{"model":"encoder","input":{"text":"fox"}}`, 400, "input"},
		{`{"model":"encoder","input":7}`, 400, "input"},
		{`{"model":"encoder","input":[1.5]}`, 400, "input"},
		{`{"model":"encoder","input":["fox",7]}`, 400, "input"},
		{`{"model":"encoder","input":["fox",[7]]}`, 400, "input"},
		{`{"model":"encoder","input":[` + strings.Repeat(`"a",`, 2048) + `"a"]}`, 400, "input"},
		{`{"model":"encoder","input":[99999999]}`, 400, nil},
		{`{"model":"encoder","input":[-1]}`, 400, nil},
		{fmt.Sprintf(`{"model":"encoder","input":%q}`, long), 400, nil},
		{`{"model":"encoder","input":"fox","dimensions":0}`, 400, "dimensions"},
		{`{"model":"encoder","input":"fox","dimensions":"8"}`, 400, "dimensions"},
		{`{"model":"encoder","input":"fox","dimensions":65}`, 400, nil},
		{`{"model":"encoder","input":"fox","encoding_format":"hex"}`, 400, "encoding_format"},
		{`{"model":"encoder","input":"fox","encoding_format":1}`, 400, "encoding_format"},
		{`{"model":7,"input":"fox"}`, 400, "model"},
		{`{"model":"none","input":"fox"}`, 404, "model"},
	} {
		w := post(s, "/v1/embeddings", c.body)
		require.Equal(t, c.status, w.Code, "%.80s: %s", c.body, w.Body)
		var answer map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
		require.Equal(t, "invalid_request_error", at(answer, "error", "type"), "%.80s", c.body)
		require.NotEmpty(t, at(answer, "error", "message"))
		require.Equal(t, c.param, at(answer, "error", "param"), "%.80s", c.body)
	}
}

// TestOllamaEmbeds: ollama's endpoints open a model if there is nothing to describe, take more dimensions than there are for all,
// and the older one gives vectors as they are.
func TestOllamaEmbeds(t *testing.T) {
	s := encoders(t)
	for _, input := range []string{``, `,"input":null`, `,"input":""`, `,"input":[]`} {
		answer := postOK(t, s, "/api/embed", `{"model":"encoder"`+input+`}`)
		require.Equal(t, []any{}, at(answer, "embeddings"), input)
	}
	require.Len(t, openModels(s), 1)
	postOK(t, s, "/api/embed", `{"model":"encoder","keep_alive":0}`)
	require.Empty(t, openModels(s))
	require.Equal(t, []any{}, at(postOK(t, s, "/api/embeddings", `{"model":"encoder"}`), "embedding"))
	require.Equal(t, []any{}, at(postOK(t, s, "/api/embeddings", `{"model":"encoder","prompt":""}`), "embedding"))
	require.Len(t, openModels(s), 1)

	answer := postOK(t, s, "/api/embed", `{"model":"encoder","input":"the fox","options":{"num_ctx":512},"dimensions":100}`)
	all := at(answer, "embeddings", 0).([]any)
	require.Len(t, all, 64)
	require.InDelta(t, 1, lengthOf(all), 1e-5)
	require.EqualValues(t, 4, at(answer, "prompt_eval_count"))
	require.Positive(t, at(answer, "total_duration"))
	require.Contains(t, answer, "load_duration")
	require.Len(t, at(postOK(t, s, "/api/embed", `{"model":"encoder","input":["the fox",""],"dimensions":8}`), "embeddings", 1), 8)

	raw := at(postOK(t, s, "/api/embeddings", `{"model":"encoder","prompt":"the fox"}`), "embedding").([]any)
	length := lengthOf(raw)
	require.Greater(t, math.Abs(length-1), 0.1)
	for i := range raw {
		require.InDelta(t, all[i].(float64), raw[i].(float64)/length, 1e-6)
	}
	for _, body := range []string{`{"model":"encoder","input":7}`, `{"model":"encoder","input":[7]}`, `{"model":"encoder","input":["a",[1]]}`, `{"model":"encoder","input":{}}`} {
		w := post(s, "/api/embed", body)
		require.Equal(t, http.StatusBadRequest, w.Code, body)
		require.Contains(t, w.Body.String(), `{"error":"input must be `)
	}
	require.Equal(t, http.StatusNotFound, post(s, "/api/embed", `{"model":"none","input":"a"}`).Code)
	require.Equal(t, http.StatusNotFound, post(s, "/api/embeddings", `{"model":"none","prompt":"a"}`).Code)
	require.Equal(t, http.StatusBadRequest, post(s, "/api/embeddings", `{"model":"encoder","prompt":["a"]}`).Code)
}

// TestRerank sorts documents in each form, and expects the fields of rerankers.
func TestRerank(t *testing.T) {
	s := encoders(t)
	const query = `{"model":"ranker","query":"where is the fox","documents":["the hen is red",{"text":"the fox is near the lake","title":"x"},"a bird"]`
	answer := postOK(t, s, "/v1/rerank", query+`}`)
	results := at(answer, "results").([]any)
	require.Len(t, results, 3)
	seen := map[any]bool{}
	for i := range results {
		require.NotContains(t, results[i], "document")
		seen[at(results, i, "index")] = true
		score := at(results, i, "relevance_score").(float64)
		require.Greater(t, score, 0.0)
		require.Less(t, score, 1.0)
		if i > 0 {
			require.LessOrEqual(t, score, at(results, i-1, "relevance_score").(float64))
		}
	}
	require.Len(t, seen, 3)
	require.Positive(t, at(answer, "usage", "total_tokens"))
	short := at(postOK(t, s, "/v1/rerank", query+`,"top_n":1,"return_documents":true}`), "results").([]any)
	require.Len(t, short, 1)
	require.Equal(t, at(results, 0, "index"), at(short, 0, "index"))
	texts := []string{"the hen is red", "the fox is near the lake", "a bird"}
	require.Equal(t, texts[int(at(short, 0, "index").(float64))], at(short, 0, "document", "text"))
	require.Len(t, at(postOK(t, s, "/v1/rerank", query+`,"top_n":9}`), "results"), 3)
	for _, c := range []struct{ body, want string }{
		{`{"model":"ranker","documents":["a"]}`, "query"},
		{`{"model":"ranker","query":["a"],"documents":["a"]}`, "query"},
		{`{"model":"ranker","query":"a"}`, "documents"},
		{`{"model":"ranker","query":"a","documents":[]}`, "documents"},
		{`{"model":"ranker","query":"a","documents":"a"}`, "documents"},
		{`{"model":"ranker","query":"a","documents":[{"title":"a"}]}`, "documents"},
		{`{"model":"ranker","query":"a","documents":["a"],"top_n":0}`, "top_n"},
		{`{"model":"ranker","query":"a","documents":["a"],"return_documents":"yes"}`, "return_documents"},
		{`{"model":"encoder","query":"a","documents":["a"]}`, "no head"},
	} {
		w := post(s, "/v1/rerank", c.body)
		require.Equal(t, http.StatusBadRequest, w.Code, c.body)
		require.Contains(t, w.Body.String(), c.want)
	}
	w := post(s, "/v1/rerank", fmt.Sprintf(`{"model":"ranker","query":%q,"documents":["a"]}`, strings.Repeat("fox ", 40)))
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "context_length_exceeded")
}

// TestEncodersAnswerNoChat: an encoder says so, in each API, and its capabilities are those that it has.
func TestEncodersAnswerNoChat(t *testing.T) {
	s := encoders(t)
	const messages = `"messages":[{"role":"user","content":"hello"}]`
	for path, rest := range map[string]string{
		"/v1/chat/completions": messages, "/v1/completions": `"prompt":"a"`, "/v1/responses": `"input":"a"`, "/v1/messages": `"max_tokens":5,` + messages,
		"/api/chat": messages, "/api/generate": `"prompt":"a"`,
	} {
		for _, model := range []string{"encoder", "ranker"} {
			w := post(s, path, `{"model":"`+model+`",`+rest+`}`)
			require.Equal(t, http.StatusBadRequest, w.Code, "%s: %s", path, w.Body)
			require.Contains(t, w.Body.String(), "generates none")
		}
	}
	require.Equal(t, []any{"embedding"}, at(postOK(t, s, "/api/show", `{"model":"encoder"}`), "capabilities"))
	require.Equal(t, []any{"completion", "tools"}, at(postOK(t, s, "/api/show", `{"model":"demo"}`), "capabilities"))
}
