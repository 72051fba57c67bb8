package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// numbers are the values in an answer that depend on the machine and on other tests.
var numbers = regexp.MustCompile(`("(?:total_duration|load_duration|prompt_cached_count|prompt_eval_duration|eval_duration)":)\d+`)

// withoutNumbers replaces numbers in an answer that depend on the machine, and lists of tokens.
func withoutNumbers(text string) string {
	return tokenList.ReplaceAllString(numbers.ReplaceAllString(text, "${1}N"), `"context":[N]`)
}

var tokenList = regexp.MustCompile(`"context":\[[\d,]+\]`)

// TestOllamaStreams checks every line of both endpoints.
func TestOllamaStreams(t *testing.T) {
	const head = `{"model":"demo","created_at":"2026-11-28T12:00:00Z",`
	const end = `"done":true,"done_reason":"length","total_duration":N,"load_duration":N,"prompt_eval_count":12,"prompt_cached_count":N,"prompt_eval_duration":N,"eval_count":2,"eval_duration":N}` + "\n"
	w := post(demo(), "/api/chat", `{"model":"demo","messages":[{"role":"user","content":"Hi"}],"options":{"num_predict":2,"temperature":0,"num_ctx":2048,"mirostat":0}}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, "application/x-ndjson", w.Header().Get("Content-Type"))
	message := func(text string) string { return head + `"message":{"role":"assistant","content":"` + text + `"},` }
	require.Equal(t, message("Hello")+`"done":false}`+"\n"+message("!")+`"done":false}`+"\n"+message("")+end, numbers.ReplaceAllString(w.Body.String(), "${1}N"))

	w = post(demo(), "/api/generate", `{"model":"demo","prompt":"Hi","options":{"num_predict":2,"temperature":0}}`)
	const context = `"context":[N],"total`
	generated := strings.Replace(end, `"total`, context, 1)
	response := func(text string) string { return head + `"response":"` + text + `",` }
	require.Equal(t, response("Hello")+`"done":false}`+"\n"+response("!")+`"done":false}`+"\n"+response("")+generated, withoutNumbers(w.Body.String()))

	w = post(demo(), "/api/generate", `{"model":"demo","prompt":"Hi","stream":false,"options":{"num_predict":2,"temperature":0}}`)
	require.Equal(t, response("Hello!")+generated, withoutNumbers(w.Body.String()))
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
	require.Equal(t, response(story, `"temperature":2,"seed":5,"top_k":0`), response(story, `"temperature":2,"seed":5,"top_k":-1`))
	require.Equal(t, ", there was a", response(`"prompt":"Once upon a time","raw":true`, `"temperature":0`))
	system := response(`"prompt":"Tell me a story about a fox.","system":"You are a pirate."`, `"temperature":0`)
	chat := postOK(t, demo(), "/api/chat", `{"model":"demo","stream":false,"messages":[{"role":"system","content":"You are a pirate."},{"role":"user","content":"Tell me a story about a fox."}],"options":{"num_predict":4,"temperature":0}}`)
	require.Equal(t, system, at(chat, "message", "content"))
	require.Positive(t, at(chat, "total_duration"))
	require.Positive(t, at(chat, "eval_duration"))
}

// TestOllamaWindow checks that num_ctx ends an answer for which num_predict gives no limit, and neither a prompt nor another answer.
func TestOllamaWindow(t *testing.T) {
	const whole = 9.0 // tokens of the answer
	for options, want := range map[string][]any{
		`"num_ctx":3`:                  {"length", 3.0},
		`"num_ctx":3,"num_predict":5`:  {"length", 5.0},
		`"num_ctx":3,"num_predict":-1`: {"stop", whole},
		`"num_ctx":2048`:               {"stop", whole},
		`"num_predict":-1`:             {"stop", whole},
	} {
		for path, prompt := range map[string]string{"/api/chat": `"messages":[{"role":"user","content":"Hi"}]`, "/api/generate": `"prompt":"Hi"`} {
			answer := postOK(t, demo(), path, `{`+prompt+`,"stream":false,"options":{"temperature":0,`+options+`}}`)
			require.Equal(t, want, []any{at(answer, "done_reason"), at(answer, "eval_count")}, "%s %s", path, options)
			require.EqualValues(t, 12, at(answer, "prompt_eval_count"))
		}
	}
}

// TestOllamaContext checks that a conversation goes on from the tokens of an answer, as it does from messages.
func TestOllamaContext(t *testing.T) {
	const options = `"stream":false,"options":{"temperature":0,"num_predict":40}`
	first := postOK(t, demo(), "/api/generate", `{"system":"Be kind.","prompt":"Hi",`+options+`}`)
	require.Equal(t, "stop", at(first, "done_reason"), "the answer is short")
	earlier, err := json.Marshal(at(first, "context"))
	require.NoError(t, err)
	second := postOK(t, demo(), "/api/generate", `{"context":`+string(earlier)+`,"prompt":"Tell me a story about a fox.",`+options+`}`)
	answer, err := json.Marshal(at(first, "response"))
	require.NoError(t, err)
	chat := postOK(t, demo(), "/api/chat", `{"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"Hi"},{"role":"assistant","content":`+string(answer)+`},{"role":"user","content":"Tell me a story about a fox."}],`+options+`}`)
	require.Equal(t, at(chat, "message", "content"), at(second, "response"))
	require.Equal(t, at(chat, "prompt_eval_count"), at(second, "prompt_eval_count"))
	require.Equal(t, at(first, "context"), at(second, "context").([]any)[:len(at(first, "context").([]any))], "the new context continues the old one")
	raw := postOK(t, demo(), "/api/generate", `{"prompt":"Hi","raw":true,`+options+`}`)
	require.NotContains(t, raw, "context", "a raw prompt is no conversation")
}

// TestOllamaLogProbs checks that both endpoints have the numbers of OpenAI's, whole and streamed.
func TestOllamaLogProbs(t *testing.T) {
	const options = `"logprobs":true,"top_logprobs":2,"options":{"temperature":0,"num_predict":3}`
	const message = `"messages":[{"role":"user","content":"Tell me a story about a fox."}]`
	want := at(postOK(t, demo(), "/v1/chat/completions", `{`+message+`,"temperature":0,"max_tokens":3,"logprobs":true,"top_logprobs":2}`), "choices", 0, "logprobs", "content")
	require.Len(t, want, 3)
	require.Equal(t, want, at(postOK(t, demo(), "/api/chat", `{`+message+`,"stream":false,`+options+`}`), "logprobs"))
	require.Equal(t, want, at(postOK(t, demo(), "/api/generate", `{"prompt":"Tell me a story about a fox.","stream":false,`+options+`}`), "logprobs"))
	var streamed []any
	for line := range strings.Lines(post(demo(), "/api/chat", `{`+message+`,`+options+`}`).Body.String()) {
		var part map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &part))
		list, _ := at(part, "logprobs").([]any)
		streamed = append(streamed, list...)
	}
	require.Equal(t, want, any(streamed))
	plain := postOK(t, demo(), "/api/chat", `{`+message+`,"stream":false,"logprobs":true,"options":{"temperature":0,"num_predict":1}}`)
	require.NotContains(t, at(plain, "logprobs", 0), "top_logprobs")
}

// TestOllamaCopies checks that a copy is the model under a further name, which can be removed again, unlike the model.
func TestOllamaCopies(t *testing.T) {
	s := newDemo(nil)
	defer s.Close()
	names := func() (all []string) {
		for _, o := range s.models.offered() {
			all = append(all, o.name)
		}
		return all
	}
	remove := func(name string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "http://localhost/api/delete", strings.NewReader(`{"model":"`+name+`"}`)))
		return w
	}
	for range 2 {
		require.Equal(t, http.StatusOK, post(s, "/api/copy", `{"source":"demo","destination":"fox:1b"}`).Code)
		require.Equal(t, []string{"demo", "fox:1b"}, names())
	}
	answer := postOK(t, s, "/api/generate", `{"model":"fox:1b","keep_alive":-1}`)
	require.Equal(t, "fox:1b", at(answer, "model"))
	require.Len(t, openModels(s), 1)
	require.Equal(t, "fox:1b", at(postOK(t, s, "/v1/completions", `{"model":"fox:1b","prompt":"x","max_tokens":1}`), "model"))
	require.Len(t, openModels(s), 1, "both names mean one model")
	require.Equal(t, http.StatusOK, remove("fox:1b").Code)
	require.Equal(t, http.StatusNotFound, remove("fox:1b").Code)
	w := remove("demo")
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Contains(t, w.Body.String(), "was given to the server with its file")
	require.Equal(t, []string{"demo"}, names())
	for i := range maxAliases {
		require.Equal(t, http.StatusOK, post(s, "/api/copy", fmt.Sprintf(`{"source":"demo","destination":"n%d"}`, i)).Code)
	}
	require.Equal(t, http.StatusBadRequest, post(s, "/api/copy", `{"source":"demo","destination":"more"}`).Code)
}

// TestOldestMessagesAreDropped checks what is left of conversations that are longer than the context.
func TestOldestMessagesAreDropped(t *testing.T) {
	list := func(roles string) (all []llmrun.Message) {
		for i, r := range roles {
			all = append(all, llmrun.Message{Role: map[rune]string{'s': "system", 'u': "user", 'a': "assistant"}[r], Content: fmt.Sprint(i)})
		}
		return all
	}
	for _, c := range []struct {
		roles, kept string
		n           int
	}{
		{"suaua", "01234", 0}, {"suauau", "0345", 1}, {"suauau", "0345", 2}, {"suauau", "05", 3}, {"uau", "2", 1}, {"uau", "2", 9}, {"au", "01", 0}, {"u", "0", 1}, {"sus", "02", 3},
	} {
		kept := ""
		for _, m := range without(list(c.roles), c.n) {
			kept += m.Content
		}
		require.Equal(t, c.kept, kept, "%s without %d", c.roles, c.n)
	}
	long := strings.Repeat("fox ", 20000)
	body := `{"messages":[{"role":"user","content":"` + long + `"},{"role":"assistant","content":"` + long + `"},{"role":"user","content":"Hi"}],"stream":false,"options":{"num_predict":2,"temperature":0}`
	require.Equal(t, "Hello!", at(postOK(t, demo(), "/api/chat", body+`}`), "message", "content"))
	w := post(demo(), "/api/chat", body+`,"truncate":false}`)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "context")
}

// TestGaps checks the prompts of models that fill gaps, by a tokenizer that has the marks of one family.
func TestGaps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"model":{"type":"BPE","vocab":{"a":0,"b":1,"<":2},"merges":[]},"added_tokens":[{"id":3,"content":"<fim_prefix>","special":true},{"id":4,"content":"<fim_suffix>","special":true},{"id":5,"content":"<fim_middle>","special":true}]}`), 0o600))
	tokenizer, err := llmrun.OpenTokenizer(path, llmrun.Options{})
	require.NoError(t, err)
	text, err := gapPrompt(tokenizer, "a", "b")
	require.NoError(t, err)
	require.Equal(t, "<fim_prefix>a<fim_suffix>b<fim_middle>", text)
	ids, err := tokenizer.Encode(text, llmrun.EncodeOptions{ParseSpecial: true})
	require.NoError(t, err)
	require.Equal(t, []int32{3, 0, 4, 1, 5}, ids)
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
	require.JSONEq(t, `{"version":"0.17.4"}`, ask(demo(), "GET", "/api/version", nil).Body.String(), "clients ask for at least 0.6.4")
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
		require.Equal(t, []any{"completion", "tools"}, at(show, "capabilities"))
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
		{chat, `{"messages":[{"role":"user","content":"x"}],"format":"xml"}`, 400, "format must be json, or a JSON schema"},
		{chat, `{"messages":[{"role":"user","content":"x"}],"format":{"items":{"if":true}}}`, 400, "#/items/if"},
		{generate, `{"prompt":"x","images":["AAAA"]}`, 400, "images is not supported"},
		{generate, `{"prompt":"x","suffix":"y"}`, 400, "suffix needs a model that fills gaps"},
		{generate, `{"prompt":"x","context":[-1]}`, 400, "context has a token that the model does not have"},
		{generate, `{"prompt":"x","context":[99999999]}`, 400, "context has a token that the model does not have"},
		{generate, `{"prompt":"x","context":"1"}`, 400, "context must be a list"},
		{generate, `{"prompt":"x","context":[1],"raw":true}`, 400, "context needs the template"},
		{generate, `{"prompt":"x","logprobs":1}`, 400, "logprobs must be true or false"},
		{generate, `{"prompt":"x","top_logprobs":21}`, 400, "top_logprobs is 21"},
		{"/api/copy", `{"source":"other","destination":"x"}`, 404, "no such model"},
		{"/api/copy", `{"source":"demo","destination":"demo"}`, 403, "clients cannot remove or replace"},
		{"/api/copy", `{"source":"demo","destination":"../x"}`, 400, "destination must be a name"},
		{"/api/copy", `{"source":"demo"}`, 400, "destination must be a name"},
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
		{"/api/embed", `{"model":"demo","input":7}`, 400, "input"},
		{"/api/embed", `{"model":"demo","input":[1,2]}`, 400, "input"},
		{"/api/embeddings", `{"model":"demo","prompt":7}`, 400, "prompt"},
		{"/api/pull", `{}`, 400, "model is missing"},
		{"/api/pull", `{"name":"fox"}`, 501, "this server downloads no models"},
		{"/api/push", `{}`, 501, "/api/push yet"},
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
