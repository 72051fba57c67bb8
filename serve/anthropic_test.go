package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestAnthropicMessage checks a whole answer, and that its shape is that of the API.
func TestAnthropicMessage(t *testing.T) {
	w := post(demo(), "/v1/messages", `{"model":"demo",`+foxMessages+`,"max_tokens":5,"temperature":0,"metadata":{"user_id":"x"},"unknown":[{}]}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	var got struct{ Usage anthropicUsage }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	require.Equal(t, 18, got.Usage.Input+got.Usage.CacheRead)
	require.JSONEq(t, fmt.Sprintf(`{
		"id": "msg_1", "type": "message", "role": "assistant", "model": "demo",
		"content": [{"type": "text", "text": "Once there lived a funny"}], "stop_reason": "max_tokens", "stop_sequence": null,
		"usage": {"input_tokens": %d, "cache_creation_input_tokens": 0, "cache_read_input_tokens": %d, "output_tokens": 5}
	}`, got.Usage.Input, got.Usage.CacheRead), w.Body.String())
}

// TestAnthropicStream checks every event of an answer.
func TestAnthropicStream(t *testing.T) {
	w := post(demo(), "/v1/messages", `{"model":"demo","stream":true,`+foxMessages+`,"max_tokens":9,"stop_sequences":["wolf"," lived"],"temperature":0}`)
	require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	event := func(kind, rest string) string {
		return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"" + rest + "}\n\n"
	}
	usage := func(body string) (got anthropicUsage, rest string) {
		d := json.NewDecoder(strings.NewReader(body))
		require.NoError(t, d.Decode(&got))
		return got, body[d.InputOffset():]
	}
	const start = "event: message_start\ndata: " + `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"demo","content":[],"stop_reason":null,"stop_sequence":null,"usage":`
	rest, ok := strings.CutPrefix(w.Body.String(), start)
	require.True(t, ok, w.Body.String())
	first, rest := usage(rest)
	require.Equal(t, 18, first.Input+first.CacheRead, "clients count the prompt when the answer begins")
	require.Zero(t, first.Output)
	want := "}}\n\n" +
		event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`) +
		event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"Once"}`) +
		event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":" there"}`) +
		event("content_block_stop", `,"index":0`) +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\" lived\"},\"usage\":"
	rest, ok = strings.CutPrefix(rest, want)
	require.True(t, ok, w.Body.String())
	last, rest := usage(rest)
	require.Equal(t, "}\n\n"+event("message_stop", ""), rest)
	require.Equal(t, anthropicUsage{Input: first.Input, CacheRead: first.CacheRead, Output: 3}, last)
}

// TestAnthropicOptions checks that the fields of a request reach the model, and that tokens are counted as they are read.
func TestAnthropicOptions(t *testing.T) {
	text := func(path, body string) map[string]any { return postOK(t, demo(), path, `{`+body+`}`) }
	const turns = `"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"Hello!"}]},{"role":"user","content":[{"type":"text","text":"Tell me a story about a fox.","cache_control":{"type":"ephemeral"}}]}]`
	const same = `"messages":[{"role":"system","content":"Be kind.\nBe brief."},{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello!"},{"role":"user","content":"Tell me a story about a fox."}]`
	const system = `"system":[{"type":"text","text":"Be kind."},{"type":"text","text":"Be brief."}],`
	got := text("/v1/messages", system+turns+`,"max_tokens":6,"temperature":0`)
	chat := text("/v1/chat/completions", same+`,"max_tokens":6,"temperature":0`)
	require.Equal(t, at(chat, "choices", 0, "message", "content"), at(got, "content", 0, "text"))
	require.Equal(t, at(chat, "usage", "prompt_tokens"), text("/v1/messages/count_tokens", system+turns)["input_tokens"])
	require.Equal(t, "end_turn", text("/v1/messages", `"messages":[{"role":"user","content":"Hi"}],"max_tokens":50,"temperature":0`)["stop_reason"])
	seeded := `"messages":[{"role":"user","content":"Hi"}],"max_tokens":6,"seed":3,"temperature":1`
	require.Equal(t, at(text("/v1/messages", seeded), "content"), at(text("/v1/messages", seeded), "content"))
}

// TestAnthropicThoughts checks the blocks and events of an answer with thoughts before it.
func TestAnthropicThoughts(t *testing.T) {
	w := httptest.NewRecorder()
	g := &anthropicRun{anthropicRequest: &anthropicRequest{server: demo()}, stream: newStream(w, true)}
	g.stats = func() llmrun.Stats { return llmrun.Stats{} }
	for _, p := range []llmrun.Piece{{Text: "Let", Kind: llmrun.KindThinking}, {Text: " me", Kind: llmrun.KindThinking}, {Text: "Yes", Kind: llmrun.KindAnswer}} {
		require.NoError(t, g.piece(&p))
	}
	require.NoError(t, g.finish(llmrun.Stats{StopReason: llmrun.StopEOS}))
	var kinds []string
	for line := range strings.Lines(w.Body.String()) {
		if kind, ok := strings.CutPrefix(line, "event: "); ok {
			kinds = append(kinds, strings.TrimSpace(kind))
		}
	}
	require.Equal(t, []string{
		"message_start", "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
		"content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop",
	}, kinds)
	require.Contains(t, w.Body.String(), `"index":0,"delta":{"type":"thinking_delta","thinking":" me"}`)
	require.Contains(t, w.Body.String(), `"index":1,"content_block":{"type":"text","text":""}`)
	text, err := json.Marshal(g.message.Content)
	require.NoError(t, err)
	require.JSONEq(t, `[{"type":"thinking","thinking":"Let me","signature":""},{"type":"text","text":"Yes"}]`, string(text))
}

// TestAnthropicKeys checks that keys are accepted in the header of Anthropic's clients.
func TestAnthropicKeys(t *testing.T) {
	s := emptyServer(t, func(o *Options) { o.APIKeys = []string{"secret"} })
	for key, status := range map[string]int{"secret": http.StatusOK, "other": http.StatusUnauthorized, "": http.StatusUnauthorized} {
		require.Equal(t, status, ask(s, http.MethodGet, "/v1/models", map[string]string{"X-Api-Key": key}).Code, key)
	}
	require.Equal(t, http.StatusUnauthorized, ask(s, http.MethodGet, "/v1/models", map[string]string{"X-Api-Key": "secret", "Authorization": "Bearer other"}).Code)
	w := ask(s, http.MethodPost, "/v1/messages", nil)
	require.JSONEq(t, `{"type":"error","error":{"type":"authentication_error","message":"the API key is missing or wrong"}}`, w.Body.String())
}

// TestAnthropicModels checks that clients of Anthropic's API get models and errors in its shape, and others in OpenAI's.
func TestAnthropicModels(t *testing.T) {
	s := newDemo(func(o *Options) {
		second := demoModel()
		second.Name = "fox/2"
		o.Models = append(o.Models, second)
		o.Models[0].Modified, o.Models[1].Modified = fixedTime, fixedTime
	})
	defer s.Close()
	version := map[string]string{"anthropic-version": "2023-06-01"}
	model := func(id string) string {
		return fmt.Sprintf(`{"type":"model","id":%q,"display_name":%q,"created_at":"2026-11-28T12:00:00Z","max_input_tokens":32768,"max_tokens":32768}`, id, id)
	}
	require.JSONEq(t, `{"data":[`+model("demo")+`,`+model("fox/2")+`],"has_more":false,"first_id":"demo","last_id":"fox/2"}`, ask(s, http.MethodGet, "/v1/models", version).Body.String())
	require.JSONEq(t, model("fox/2"), ask(s, http.MethodGet, "/v1/models/fox/2", version).Body.String())
	w := ask(s, http.MethodGet, "/v1/models/other", version)
	require.Equal(t, http.StatusNotFound, w.Code)
	require.JSONEq(t, `{"type":"error","error":{"type":"not_found_error","message":"there is no such model: \"other\""}}`, w.Body.String())
	require.Contains(t, ask(s, http.MethodGet, "/v1/models", nil).Body.String(), `{"object":"list"`)
	require.Contains(t, ask(s, http.MethodGet, "/v1/models/other", nil).Body.String(), `"code":"model_not_found"`)
	keyed := emptyServer(t, func(o *Options) { o.APIKeys = []string{"secret"} })
	require.Contains(t, ask(keyed, http.MethodGet, "/v1/models", version).Body.String(), `"type":"authentication_error"`)
}

// TestFailedCallsAreTold checks that the text of a result says that its call has failed.
func TestFailedCallsAreTold(t *testing.T) {
	for result, want := range map[string]string{
		`"content":"no such file","is_error":true`:                     "Error: no such file",
		`"content":[{"type":"text","text":"no file"}],"is_error":true`: "Error: no file",
		`"is_error":true`:                      "Error:",
		`"content":"3 files","is_error":false`: "3 files",
		`"content":"3 files"`:                  "3 files",
	} {
		o := newObject([]byte(`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a",` + result + `}]}]}`))
		require.Equal(t, []llmrun.Message{{Role: "tool", ToolCallID: "a", Content: want}}, readTurns(o))
		require.NoError(t, o.err())
	}
}

// TestAnthropicRefusals checks that a wrong request gets the API's error.
func TestAnthropicRefusals(t *testing.T) {
	for _, c := range []struct {
		body    string
		status  int
		kind    string
		message string
	}{
		{`{"model":"other",` + foxMessages + `,"max_tokens":1}`, 404, "not_found_error", "no such model"},
		{`{` + foxMessages + `}`, 400, "invalid_request_error", "max_tokens is missing"},
		{`{` + foxMessages + `,"max_tokens":0}`, 400, "invalid_request_error", "max_tokens is 0"},
		{`{"messages":[],"max_tokens":1}`, 400, "invalid_request_error", "messages must be a list"},
		{`{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}],"max_tokens":1}`, 400, "invalid_request_error", "must end with a message of the user"},
		{`{"messages":[{"role":"user","content":[{"type":"image","source":{}}]}],"max_tokens":1}`, 400, "invalid_request_error", "messages[0].content[0].type is \"image\": the models read text"},
		{`{"messages":[{"role":"user","content":[{"type":"tool_use"}]}],"max_tokens":1}`, 400, "invalid_request_error", "a message has text, and calls or results of tools"},
		{`{"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"x","input":[]}]},{"role":"user","content":"x"}],"max_tokens":1}`, 400, "invalid_request_error", "messages[0].content[0].input must be an object"},
		{`{"messages":[{"role":"user"}],"max_tokens":1}`, 400, "invalid_request_error", "messages[0].content is missing"},
		{`{"messages":[{"role":"user","content":null}],"max_tokens":1}`, 400, "invalid_request_error", "messages[0].content is missing"},
		{`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":"yes"}]}],"max_tokens":1}`, 400, "invalid_request_error", "messages[0].content[0].is_error must be true or false"},
		{`{"messages":[{"role":"wizard","content":"x"}],"max_tokens":1}`, 400, "invalid_request_error", "messages[0].role must be"},
		{`{` + foxMessages + `,"max_tokens":1,"system":7}`, 400, "invalid_request_error", "system must be a string"},
		{`{` + foxMessages + `,"max_tokens":1,"stop_sequences":[1]}`, 400, "invalid_request_error", "stop_sequences must be"},
		{`{` + foxMessages + `,"max_tokens":1,"thinking":{"type":"hard"}}`, 400, "invalid_request_error", "thinking.type must be"},
		{`{` + foxMessages + `,"max_tokens":1,"tools":[{}]}`, 400, "invalid_request_error", "tools[0].name must be the name of the tool"},
		{`{` + foxMessages + `,"max_tokens":1,"tools":[{"type":"web_search_20250305","name":"x"}]}`, 400, "invalid_request_error", "the server itself has no tools"},
		{`{` + foxMessages + `,"max_tokens":1,"tools":[{"name":"x"}],"tool_choice":{"type":"tool","name":"y"}}`, 400, "invalid_request_error", "tool_choice.name must be one of the tools"},
		{`{` + foxMessages + `,"max_tokens":1,"tool_choice":{"type":"any"}}`, 400, "invalid_request_error", "tool_choice needs tools"},
		{`{` + foxMessages + `,"max_tokens":1,"tools":[{"name":"x"}],"tool_choice":{"type":"all"}}`, 400, "invalid_request_error", "tool_choice.type must be"},
		{`{`, 400, "invalid_request_error", "ends too early"},
	} {
		w := post(demo(), "/v1/messages", c.body)
		require.Equal(t, c.status, w.Code, "%s: %s", c.body, w.Body)
		var answer anthropicError
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
		require.Equal(t, "error", answer.Type)
		require.Equal(t, c.kind, answer.Error.Type, c.body)
		require.Contains(t, answer.Error.Message, c.message, c.body)
	}
	w := ask(demo(), http.MethodGet, "/v1/messages", nil)
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
	require.Contains(t, w.Body.String(), `"type":"error"`)
}

// testAnthropicCallsTools checks the calls of an answer, whole and as a stream, and that tools, calls and results reach the template as
// those of OpenAI's API do.
func testAnthropicCallsTools(t *testing.T, tooled *Server) {
	const tools = `"tools":[{"name":"weather","description":"the weather","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}]`
	request := func(more string) *anthropicRequest {
		o := newObject([]byte(`{"messages":[{"role":"user","content":"Hi"}],` + tools + more + `}`))
		r := tooled.readAnthropicPrompt(o)
		require.NoError(t, o.err())
		r.stream, r.prompt = more != "", calling()
		return r
	}
	var whole map[string]any
	require.NoError(t, json.Unmarshal(using(t, tooled, request("").run).Body.Bytes(), &whole))
	content, err := json.Marshal(whole["content"])
	require.NoError(t, err)
	require.JSONEq(t, `[{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"Let me see."},
		{"type":"tool_use","id":"abcdefghi","name":"weather","input":{"city":"Rome"}},{"type":"tool_use","id":"jklmnopqr","name":"stop","input":{}}]`, string(content))
	require.Equal(t, "tool_use", whole["stop_reason"])

	body := using(t, tooled, request(`,"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`).run).Body.String()
	require.Contains(t, body, `"index":2,"content_block":{"type":"tool_use","id":"abcdefghi","name":"weather","input":{}}}`)
	require.Contains(t, body, `"index":2,"delta":{"type":"input_json_delta","partial_json":"{\"city\""}}`)
	require.Contains(t, body, `"index":2,"delta":{"type":"input_json_delta","partial_json":": \"Rome\"}"}}`)
	require.Equal(t, 4, strings.Count(body, "event: content_block_start\n"))
	require.Equal(t, 4, strings.Count(body, "event: content_block_stop\n"))
	require.Contains(t, body, `"stop_reason":"tool_use"`)

	const turns = `"messages":[{"role":"user","content":"Weather?"},
		{"role":"assistant","content":[{"type":"text","text":"Let me see."},{"type":"tool_use","id":"abcdefghi","name":"weather","input":{"city":"Rome"}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"abcdefghi","content":[{"type":"text","text":"sunny"}]},{"type":"text","text":"And?"}]}],`
	const same = `"messages":[{"role":"user","content":"Weather?"},
		{"role":"assistant","content":"Let me see.","tool_calls":[{"id":"abcdefghi","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}]},
		{"role":"tool","tool_call_id":"abcdefghi","content":"sunny"},{"role":"user","content":"And?"}],"tools":[` + weatherTool + `],`
	got := postOK(t, tooled, "/v1/messages", `{`+turns+tools+`,"max_tokens":6,"temperature":0}`)
	want := postOK(t, tooled, "/v1/chat/completions", `{`+same+`"max_tokens":6,"temperature":0}`)
	require.Equal(t, at(want, "usage", "prompt_tokens"), at(got, "usage", "input_tokens").(float64)+at(got, "usage", "cache_read_input_tokens").(float64))
	require.Equal(t, at(want, "choices", 0, "message", "content"), at(got, "content", 0, "text"))
	require.Equal(t, at(want, "usage", "prompt_tokens"), postOK(t, tooled, "/v1/messages/count_tokens", `{`+turns+tools+`}`)["input_tokens"])
}
