package serve

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/cmd/llmrun/bundled"
)

// demoModel is the bundled model, under the name that requests of the tests use.
func demoModel() Model {
	return Model{Name: "demo", Path: bundled.Name, Options: llmrun.Options{FS: bundled.FS, Threads: 2}}
}

// fixedTime is the time of answers in tests.
var fixedTime = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// newDemo returns a server with the bundled model whose answers have a fixed time and id.
func newDemo(change func(*Options)) *Server {
	o := Options{Models: []Model{demoModel()}, KeepAlive: -1}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		panic(err)
	}
	s.now, s.id = func() time.Time { return fixedTime }, func() string { return "1" }
	return s
}

// demo is the server of tests that need no options of their own. It stays open.
var demo = sync.OnceValue(func() *Server { return newDemo(nil) })

// newObject returns the object of a body. One that is no body notes its error.
func newObject(body []byte) *object {
	fields, err := parseJSON(body)
	return &object{fields: fields, first: &err}
}

// post sends a body without a connection.
func post(s http.Handler, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader(body)))
	return w
}

// postOK sends a body and returns the JSON of the answer, which must be good.
func postOK(t *testing.T, s http.Handler, path, body string) map[string]any {
	t.Helper()
	w := post(s, path, body)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var answer map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	return answer
}

// at follows keys and indices into decoded JSON.
func at(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, _ := v.(map[string]any)
			v = object[step]
		case int:
			list, _ := v.([]any)
			if step >= len(list) {
				return nil
			}
			v = list[step]
		}
	}
	return v
}

// text reads all of a body.
func text(t testing.TB, r io.Reader) string {
	t.Helper()
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(data)
}

// openModels returns the models that are open.
func openModels(s *Server) []loaded {
	open, _ := s.models.loaded()
	return open
}
