package serve

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestNamedSessions checks that a conversation with a name is saved behind its answer, and goes on in another process.
func TestNamedSessions(t *testing.T) {
	dir := t.TempDir()
	start := func() *Server {
		return newDemo(func(o *Options) { o.Models[0].Options.Cache.KVDir = dir })
	}
	post := func(s *Server, path, name, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader(body))
		r.Header.Set(sessionHeader, name)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	question := strings.Repeat("The fox went into the wood and came back. ", 12) + "Tell me a story about the fox."
	conversation := `{"role":"user","content":"` + question + `"}`
	first := `"messages":[` + conversation + `],"temperature":0,"max_tokens":4`
	s := start()
	w := post(s, "/v1/chat/completions", "fox", `{`+first+`}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	var whole struct {
		Choices []struct{ Message llmrun.Message }
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &whole))
	answer := whole.Choices[0].Message
	saved, err := llmrun.ShowSession(dir, "fox")
	require.NoError(t, err)
	require.Equal(t, []llmrun.Message{{Role: "user", Content: question}, answer}, saved.Messages)
	require.NoError(t, s.Close())

	s = start()
	defer s.Close()
	w = post(s, "/v1/chat/completions", "fox", `{"messages":[`+conversation+`,{"role":"assistant","content":"`+answer.Content+`"},{"role":"user","content":"And then?"}],"temperature":0,"max_tokens":4,"stream":true,"stream_options":{"include_usage":true}}`)
	require.Equal(t, http.StatusOK, w.Code)
	require.Regexp(t, `"cached_tokens":(64|128)}`, w.Body.String(), "whole pages of the turn before are read from flash, though it is short")
	require.True(t, strings.HasSuffix(w.Body.String(), "data: [DONE]\n\n"))
	for _, c := range []struct {
		path, name, body string
		status           int
		message          string
	}{
		{"/v1/completions", "fox", `{"prompt":"x"}`, 400, "needs a conversation"},
		{"/v1/chat/completions", "fox", `{` + first + `,"n":2}`, 400, "needs a conversation"},
		{"/api/generate", "fox", `{"prompt":"x","raw":true}`, 400, "needs a conversation"},
		{"/api/chat", "../fox", `{"messages":[{"role":"user","content":"x"}]}`, 400, "session name"},
	} {
		w := post(s, c.path, c.name, c.body)
		require.Equal(t, c.status, w.Code, w.Body)
		require.Contains(t, w.Body.String(), c.message)
	}

	engine, err := llmrun.Open(demoModel().Path, llmrun.Options{FS: demoModel().Options.FS, Cache: llmrun.CacheOptions{KVDir: dir}})
	require.NoError(t, err)
	defer engine.Close()
	busy, err := engine.OpenSession("fox", llmrun.SessionOptions{})
	require.NoError(t, err)
	defer busy.Close()
	w = post(s, "/v1/chat/completions", "fox", `{`+first+`}`)
	require.Equal(t, http.StatusConflict, w.Code, w.Body)
}

// TestFurtherQuestions asks several questions about one document, in one process and in the next: each computes no more tokens than its
// own and a page's.
func TestFurtherQuestions(t *testing.T) {
	const page = 64
	tokens := testutil.Effort(700, 16<<10)
	dir := t.TempDir()
	ask := func(s *Server, question string) (prompt, computed int) {
		document := strings.Repeat("The fox went into the wood. ", tokens/7)
		answer := postOK(t, s, "/v1/chat/completions", `{"messages":[{"role":"user","content":"`+document+question+`"}],"temperature":0,"max_tokens":1}`)
		prompt = int(at(answer, "usage", "prompt_tokens").(float64))
		return prompt, prompt - int(at(answer, "usage", "prompt_tokens_details", "cached_tokens").(float64))
	}
	start := func() *Server {
		return newDemo(func(o *Options) { o.Models[0].Options.Cache.KVDir = dir })
	}
	s := start()
	prompt, computed := ask(s, "Who went?")
	require.Equal(t, prompt, computed)
	require.Greater(t, prompt, tokens/2)
	_, computed = ask(s, "Where did the fox go?")
	t.Logf("%d tokens, of which the second question computes %d", prompt, computed)
	require.LessOrEqual(t, computed, page+20)
	require.NoError(t, s.Close())

	s = start()
	defer s.Close()
	_, computed = ask(s, "What did the fox do?")
	t.Logf("after a restart, %d", computed)
	require.LessOrEqual(t, computed, page+20)
	s.metrics.mu.Lock()
	defer s.metrics.mu.Unlock()
	require.Greater(t, int(s.metrics.restored), prompt-page-20, "from flash")
}
