package serve

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// sent returns the values of a stream of events.
func sent(t *testing.T, w *httptest.ResponseRecorder) (events []map[string]any) {
	t.Helper()
	require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	for line := range strings.Lines(w.Body.String()) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var event map[string]any
			require.NoError(t, json.Unmarshal([]byte(data), &event))
			events = append(events, event)
		}
	}
	return events
}

// TestPageJobs checks that a summary reports its progress, ends with its text, and is found again in the next process, and that kept
// sessions can be listed, read and deleted.
func TestPageJobs(t *testing.T) {
	dir := t.TempDir()
	start := func() *Server {
		return newDemo(func(o *Options) { o.Models[0].Options.Cache.KVDir = dir })
	}
	s := start()
	require.JSONEq(t, `{"kept":true,"sessions":[]}`, ask(s, "GET", "/llmrun/sessions", nil).Body.String())
	body := `{"name":"fox.txt","words":1,"text":"` + strings.Repeat("The fox went into the wood and came back. ", 20) + `"}`
	events := sent(t, post(s, "/llmrun/summaries", body))
	require.Equal(t, map[string]any{"level": 0.0, "part": 1.0, "parts": 1.0, "done": 0.0, "total": at(events[0], "progress", "total")}, at(events[0], "progress"))
	last := events[len(events)-1]
	require.NotEmpty(t, at(last, "summary", "summary"))
	require.EqualValues(t, 1, at(last, "summary", "computed_parts"))
	require.Greater(t, metricOf(t, s, `llmrun_tokens_total{kind="prompt"}`), 150, "the text was read")
	require.Positive(t, metricOf(t, s, `llmrun_tokens_total{kind="generated"}`))

	named := httptest.NewRequest(http.MethodPost, "http://localhost/v1/chat/completions", strings.NewReader(`{"messages":[{"role":"user","content":"A fox"}],"max_tokens":2}`))
	named.Header.Set(sessionHeader, "fox")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, named)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.NoError(t, s.Close())

	s = start()
	defer s.Close()
	again := sent(t, post(s, "/llmrun/summaries", body))
	require.EqualValues(t, 1, at(again[len(again)-1], "summary", "reused_parts"), "of the process before")
	require.Equal(t, at(last, "summary", "summary"), at(again[len(again)-1], "summary", "summary"))

	var list pageSessions
	require.NoError(t, json.Unmarshal(ask(s, "GET", "/llmrun/sessions", nil).Body.Bytes(), &list))
	require.Len(t, list.Sessions, 1)
	require.Equal(t, "fox", list.Sessions[0].Name)
	require.Empty(t, list.Sessions[0].Messages)
	var shown llmrun.SavedSession
	require.NoError(t, json.Unmarshal(ask(s, "GET", "/llmrun/sessions/fox", nil).Body.Bytes(), &shown))
	require.Len(t, shown.Messages, 2)
	require.Equal(t, llmrun.Message{Role: "user", Content: "A fox"}, shown.Messages[0])
	require.Empty(t, shown.IDs)
	for path, want := range map[string]int{"/llmrun/sessions/none": 404, "/llmrun/sessions/..%2ffox": 400} {
		require.Equal(t, want, ask(s, "GET", path, nil).Code, path)
		require.Equal(t, want, ask(s, "DELETE", path, nil).Code, path)
	}
	require.Equal(t, http.StatusOK, ask(s, "DELETE", "/llmrun/sessions/fox", nil).Code)
	require.Equal(t, http.StatusNotFound, ask(s, "DELETE", "/llmrun/sessions/fox", nil).Code)
}

// TestPageJobsAreGuarded checks that what the page asks for needs a key, and names what is wrong.
func TestPageJobsAreGuarded(t *testing.T) {
	s := emptyServer(t, func(o *Options) { o.APIKeys = []string{"secret"}; o.MaxBody = 9000 })
	for _, path := range []string{"/llmrun/sessions", "/llmrun/sessions/fox"} {
		require.Equal(t, http.StatusUnauthorized, ask(s, "GET", path, map[string]string{"Accept": browserAccepts}).Code, path)
	}
	require.Equal(t, http.StatusUnauthorized, ask(s, "DELETE", "/llmrun/sessions/fox", nil).Code)
	require.Equal(t, http.StatusUnauthorized, post(s, "/llmrun/summaries", `{"text":"x"}`).Code)
	s = emptyServer(t, func(o *Options) { o.MaxBody = 9000 })
	require.JSONEq(t, `{"kept":false,"sessions":[]}`, ask(s, "GET", "/llmrun/sessions", nil).Body.String())
	require.Equal(t, http.StatusNotFound, ask(s, "GET", "/llmrun/sessions/fox", nil).Code)
	long := strings.Repeat("x", maxSummaryText+1)
	for body, want := range map[string]struct {
		status  int
		message string
	}{
		`{}`:                                         {400, "text is missing"},
		`{"text":""}`:                                {400, "text is empty"},
		`{"text":1}`:                                 {400, "text must be a string"},
		`{"text":"x","words":0}`:                     {400, "words is 0"},
		`{"text":"x","cite":"yes"}`:                  {400, "cite must be"},
		`{"text":"x","model":"no"}`:                  {404, "no such model"},
		`{"text":"x","name":"` + long + `"}`:         {400, "name is too long"},
		`{"text":"` + long + long + long + `"}`:      {413, "larger than"},
		`{"text":"x","instructions":"` + long + `"}`: {400, "instructions is too long"},
	} {
		w := post(s, "/llmrun/summaries", body)
		require.Equal(t, want.status, w.Code, "%.80s", body)
		require.Contains(t, w.Body.String(), want.message, "%.80s", body)
	}
}
