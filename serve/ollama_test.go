package serve

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// numbers are the values in an answer that depend on the machine and on other tests.
var numbers = regexp.MustCompile(`("(?:total_duration|load_duration|prompt_eval_duration|eval_duration)":)\d+`)

// TestOllamaStreams checks every line of both endpoints.
func TestOllamaStreams(t *testing.T) {
	const head = `{"model":"demo","created_at":"2026-11-28T12:00:00Z",`
	const end = `"done":true,"done_reason":"length","total_duration":N,"load_duration":N,"prompt_eval_count":12,"prompt_eval_duration":N,"eval_count":2,"eval_duration":N}` + "\n"
	w := post(demo(), "/api/chat", `{"model":"demo","messages":[{"role":"user","content":"Hi"}],"options":{"num_predict":2,"temperature":0,"num_ctx":2048,"mirostat":0}}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, "application/x-ndjson", w.Header().Get("Content-Type"))
	message := func(text string) string { return head + `"message":{"role":"assistant","content":"` + text + `"},` }
	require.Equal(t, message("Hello")+`"done":false}`+"\n"+message("!")+`"done":false}`+"\n"+message("")+end, numbers.ReplaceAllString(w.Body.String(), "${1}N"))

	w = post(demo(), "/api/generate", `{"model":"demo","prompt":"Hi","options":{"num_predict":2,"temperature":0}}`)
	response := func(text string) string { return head + `"response":"` + text + `",` }
	require.Equal(t, response("Hello")+`"done":false}`+"\n"+response("!")+`"done":false}`+"\n"+response("")+end, numbers.ReplaceAllString(w.Body.String(), "${1}N"))

	w = post(demo(), "/api/generate", `{"model":"demo","prompt":"Hi","stream":false,"options":{"num_predict":2,"temperature":0}}`)
	require.Equal(t, response("Hello!")+end, numbers.ReplaceAllString(w.Body.String(), "${1}N"))
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
}

// TestOllamaOptions checks that options reach the model.
func TestOllamaOptions(t *testing.T) {
	response := func(fields, options string) any {
		return at(postOK(t, demo(), "/api/generate", `{"model":"demo:latest","stream":false,`+fields+`,"options":{"num_predict":4,`+options+`}}`), "response")
	}
	const story = `"prompt":"Tell me a story about a fox."`
	require.Equal(t, "Once there lived a", response(story, `"temperature":0`))
	require.Equal(t, "Once there", response(story, `"temperature":0,"stop":[" lived"]`))
	require.Equal(t, response(story, `"temperature":2,"seed":5`), response(story, `"temperature":2,"seed":5`))
	require.Equal(t, "Once there lived a", response(story, `"temperature":2,"seed":5,"top_k":1`))
	require.Equal(t, ", there was a", response(`"prompt":"Once upon a time","raw":true`, `"temperature":0`))
	system := response(`"prompt":"Tell me a story about a fox.","system":"You are a pirate."`, `"temperature":0`)
	chat := postOK(t, demo(), "/api/chat", `{"model":"demo","stream":false,"messages":[{"role":"system","content":"You are a pirate."},{"role":"user","content":"Tell me a story about a fox."}],"options":{"num_predict":4,"temperature":0}}`)
	require.Equal(t, system, at(chat, "message", "content"))
	require.Positive(t, at(chat, "total_duration"))
	require.Positive(t, at(chat, "eval_duration"))
}

// TestOllamaLoads checks that a request without a prompt opens the model, and closes it with keep_alive 0.
func TestOllamaLoads(t *testing.T) {
	s := newDemo(nil)
	defer s.Close()
	require.JSONEq(t, `{"models":[]}`, ask(s, "GET", "/api/ps", nil).Body.String())
	loaded := postOK(t, s, "/api/generate", `{"model":"demo","keep_alive":"10m"}`)
	require.Equal(t, map[string]any{"model": "demo", "created_at": "2026-11-28T12:00:00Z", "response": "", "done": true, "done_reason": "load"}, loaded)
	var running map[string]any
	require.NoError(t, json.Unmarshal(ask(s, "GET", "/api/ps", nil).Body.Bytes(), &running))
	require.Equal(t, "demo", at(running, "models", 0, "name"))
	require.Greater(t, at(running, "models", 0, "size"), 29e6)
	require.EqualValues(t, 0, at(running, "models", 0, "size_vram"))
	require.EqualValues(t, 32768, at(running, "models", 0, "context_length"))
	until, err := time.Parse(time.RFC3339Nano, at(running, "models", 0, "expires_at").(string))
	require.NoError(t, err)
	require.Greater(t, until.Sub(s.made), 9*time.Minute)
	unloaded := postOK(t, s, "/api/chat", `{"model":"demo","messages":[],"keep_alive":0}`)
	require.Equal(t, "unload", at(unloaded, "done_reason"))
	require.JSONEq(t, `{"models":[]}`, ask(s, "GET", "/api/ps", nil).Body.String())
}

// TestOllamaListings checks what clients ask before they use a model.
func TestOllamaListings(t *testing.T) {
	for _, method := range []string{"GET", "HEAD"} {
		w := ask(demo(), method, "/", nil)
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, "Ollama is running", w.Body.String())
	}
	require.JSONEq(t, `{"version":"0.0.0"}`, ask(demo(), "GET", "/api/version", nil).Body.String())
	var tags map[string]any
	require.NoError(t, json.Unmarshal(ask(demo(), "GET", "/api/tags", nil).Body.Bytes(), &tags))
	model := at(tags, "models", 0)
	require.Equal(t, "demo", at(model, "name"))
	require.Equal(t, "demo", at(model, "model"))
	require.Greater(t, at(model, "size"), 29e6)
	require.Len(t, at(model, "digest"), 64)
	require.Equal(t, map[string]any{
		"parent_model": "", "format": "pack", "family": "llama", "families": []any{"llama"}, "parameter_size": "14.95M", "quantization_level": "BF16",
	}, at(model, "details"))
	for _, field := range []string{"model", "name"} {
		show := postOK(t, demo(), "/api/show", `{"`+field+`":"demo"}`)
		require.Equal(t, []any{"completion"}, at(show, "capabilities"))
		require.Equal(t, "llama", at(show, "model_info", "general.architecture"))
		require.EqualValues(t, 32768, at(show, "model_info", "llama.context_length"))
		require.Equal(t, at(model, "details"), at(show, "details"))
	}
	require.Equal(t, "7.2B", countName(7_241_000_000))
	require.Equal(t, "35.00K", countName(35_000))
}

// TestBrokenModelsAreListed checks that a model whose file is not there hides no others, and that its requests say why.
func TestBrokenModelsAreListed(t *testing.T) {
	s := emptyServer(t, func(o *Options) { o.Models = append(o.Models, demoModel()) })
	var tags map[string]any
	require.NoError(t, json.Unmarshal(ask(s, "GET", "/api/tags", nil).Body.Bytes(), &tags))
	require.Equal(t, "none", at(tags, "models", 0, "name"))
	require.Zero(t, at(tags, "models", 0, "size"))
	require.Len(t, at(tags, "models", 0, "digest"), 64)
	require.Positive(t, at(tags, "models", 1, "size"))
	w := post(s, "/api/show", `{"model":"none"}`)
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Contains(t, w.Body.String(), "no such file")
}

// TestKeepAliveForms checks the forms of a duration.
func TestKeepAliveForms(t *testing.T) {
	for value, want := range map[string]time.Duration{
		`"5m"`: 5 * time.Minute, `"90"`: 90 * time.Second, `30`: 30 * time.Second, `0`: 0, `-1`: -time.Second, `"-1"`: -time.Second, `1.5`: 1500 * time.Millisecond, `1e9`: 1e9 * time.Second,
	} {
		o := newObject([]byte(`{"keep_alive":` + value + `}`))
		got := readKeepAlive(o)
		if value == `1e9` {
			require.NoError(t, o.err())
			require.Greater(t, *got, time.Hour)
			continue
		}
		require.NoError(t, o.err(), value)
		require.Equal(t, want, *got, value)
	}
	require.Nil(t, readKeepAlive(newObject([]byte(`{}`))))
	for _, value := range []string{`"soon"`, `true`, `[]`, `1e300`} {
		o := newObject([]byte(`{"keep_alive":` + value + `}`))
		readKeepAlive(o)
		require.Error(t, o.err(), value)
	}
}

// TestOllamaRefusals checks that a wrong request gets the API's error.
func TestOllamaRefusals(t *testing.T) {
	const chat, generate = "/api/chat", "/api/generate"
	for _, c := range []struct {
		path, body string
		status     int
		message    string
	}{
		{chat, `{"model":"other"}`, 404, "no such model"},
		{chat, `{"model":"/etc/passwd"}`, 400, "not a path"},
		{"/api/show", `{"model":"other"}`, 404, "no such model"},
		{"/api/show", `{"model":1}`, 400, "must be a string"},
		{chat, `{"messages":[{"role":"user","content":"x","images":["AAAA"]}]}`, 400, "messages[0].images is not supported"},
		{chat, `{"messages":[{"role":"user","content":"x"}],"tools":[{}]}`, 400, "tools[0].function.name must be the name of the tool"},
		{chat, `{"messages":[{"role":"user","content":"x"}],"format":"json"}`, 400, "format is not supported yet"},
		{generate, `{"prompt":"x","images":["AAAA"]}`, 400, "images is not supported"},
		{generate, `{"prompt":"x","suffix":"y"}`, 400, "suffix is not supported yet"},
		{generate, `{"prompt":"x","context":[1]}`, 400, "context is not supported yet"},
		{generate, `{"prompt":"x","options":{"num_predict":-5}}`, 400, "options.num_predict is -5"},
		{generate, `{"prompt":"x","options":{"num_ctx":2147483648}}`, 400, "options.num_ctx is 2147483648"},
		{generate, `{"prompt":"x","options":{"top_k":-5}}`, 400, "options.top_k is -5"},
		{generate, `{"prompt":"x","options":{"top_p":2}}`, 400, "options.top_p is 2"},
		{generate, `{"prompt":"x","options":{"temperature":"hot"}}`, 400, "options.temperature must be a number"},
		{generate, `{"prompt":"x","options":{"repeat_last_n":-2}}`, 400, "options.repeat_last_n is -2"},
		{generate, `{"prompt":"x","options":[]}`, 400, "options must be an object"},
		{generate, `{"prompt":"x","keep_alive":"soon"}`, 400, "keep_alive must be a duration"},
		{generate, `{"prompt":["x"]}`, 400, "prompt must be a string"},
		{generate, `{"prompt":"` + strings.Repeat("fox ", 40000) + `"}`, 400, "context"},
		{"/api/embed", `{}`, 501, "/api/embed yet"},
		{"/api/pull", `{}`, 501, "/api/pull yet"},
		{"/api/nothing", `{}`, 404, "no such endpoint"},
	} {
		w := post(demo(), c.path, c.body)
		name := shorten(c.body)
		require.Equal(t, c.status, w.Code, "%s: %s", name, w.Body)
		var answer map[string]string
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), name)
		require.Len(t, answer, 1)
		require.Contains(t, answer["error"], c.message, name)
	}
}
