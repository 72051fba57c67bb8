package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestResponse checks a whole response, and that its shape is that of the API.
func TestResponse(t *testing.T) {
	w := post(demo(), "/v1/responses", `{"model":"demo","input":"Tell me a story about a fox.","max_output_tokens":5,"temperature":0,"metadata":{"a":"b"},"unknown":[{}]}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	var got map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	cached := at(got, "usage", "input_tokens_details", "cached_tokens")
	require.Less(t, cached, 18.0)
	require.JSONEq(t, `{
		"id": "resp_1", "object": "response", "created_at": 1795867200, "completed_at": 1795867200, "status": "incomplete", "background": false,
		"error": null, "incomplete_details": {"reason": "max_output_tokens"}, "model": "demo", "instructions": null, "max_output_tokens": 5,
		"previous_response_id": null, "temperature": 0, "top_p": null, "top_logprobs": 0, "truncation": "disabled", "store": true,
		"reasoning": {"effort": null, "summary": null}, "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [],
		"parallel_tool_calls": true, "user": null, "metadata": {"a": "b"},
		"output": [{"id": "msg_1", "type": "message", "status": "incomplete", "role": "assistant", "content": [
			{"type": "output_text", "text": "Once there lived a funny", "annotations": [], "logprobs": []}]}],
		"usage": {"input_tokens": 18, "input_tokens_details": {"cached_tokens": `+fmt.Sprint(cached)+`}, "output_tokens": 5,
			"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 23}
	}`, w.Body.String())
}

// responseEvents returns the events of a stream, whose names must be their types and whose numbers must count.
func responseEvents(t *testing.T, body string) (events []map[string]any) {
	t.Helper()
	for i, text := range strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(text, "\n")
		require.True(t, ok, text)
		var e map[string]any
		require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(data, "data: ")), &e), text)
		require.Equal(t, "event: "+e["type"].(string), name)
		require.EqualValues(t, i, e["sequence_number"])
		events = append(events, e)
	}
	return events
}

// TestResponseStream checks the events of a stream against the whole response.
func TestResponseStream(t *testing.T) {
	const body = `{"model":"demo","input":"Tell me a story about a fox.","max_output_tokens":3,"temperature":0`
	w := post(demo(), "/v1/responses", body+`,"stream":true}`)
	require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	events := responseEvents(t, w.Body.String())
	var types []any
	text := ""
	for _, e := range events {
		types = append(types, e["type"])
		if delta, ok := e["delta"].(string); ok {
			text += delta
			require.Equal(t, "msg_1", e["item_id"])
			require.EqualValues(t, 0, e["output_index"])
			require.EqualValues(t, 0, e["content_index"])
		}
	}
	require.Equal(t, []any{
		"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
		"response.output_text.delta", "response.output_text.delta", "response.output_text.delta",
		"response.output_text.done", "response.content_part.done", "response.output_item.done", "response.incomplete",
	}, types)
	require.Equal(t, "Once there lived", text)
	require.Equal(t, text, events[7]["text"])
	require.Equal(t, "in_progress", at(events[0], "response", "status"))
	require.Equal(t, []any{}, at(events[0], "response", "output"))
	require.Equal(t, []any{}, at(events[2], "item", "content"))
	require.Equal(t, "", at(events[3], "part", "text"))
	require.Equal(t, text, at(events[8], "part", "text"))
	require.Equal(t, at(events[10], "response", "output", 0), events[9]["item"])
	whole := postOK(t, demo(), "/v1/responses", body+`}`)
	last := events[10]["response"].(map[string]any)
	delete(last, "usage") // its cached tokens depend on what was asked before
	delete(whole, "usage")
	require.Equal(t, whole, last)
}

// TestResponseOptions checks that the fields of a request reach the model.
func TestResponseOptions(t *testing.T) {
	text := func(fields string) any {
		answer := postOK(t, demo(), "/v1/responses", `{"max_output_tokens":6,`+fields+`}`)
		return at(answer, "output", 0, "content", 0, "text")
	}
	chat := func(messages string) any {
		answer := postOK(t, demo(), "/v1/chat/completions", `{"max_tokens":6,"temperature":0,"messages":[`+messages+`]}`)
		return at(answer, "choices", 0, "message", "content")
	}
	const fox = `"Tell me a story about a fox."`
	require.Equal(t, chat(`{"role":"system","content":"You are a pirate."},{"role":"user","content":`+fox+`}`), text(`"temperature":0,"instructions":"You are a pirate.","input":`+fox))
	require.Equal(t, chat(`{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello!"},{"role":"user","content":`+fox+`}`),
		text(`"temperature":0,"input":[{"role":"user","content":"Hi"},{"type":"reasoning","summary":[]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello!"}]},{"role":"user","content":[{"type":"input_text","text":`+fox+`}]}]`))
	require.Equal(t, text(`"temperature":1.5,"seed":7,"input":"Hi"`), text(`"temperature":1.5,"seed":7,"input":"Hi"`))
	require.Equal(t, text(`"temperature":0,"input":"Hi"`), text(`"temperature":1.5,"top_p":0,"input":"Hi"`))

	answer := postOK(t, demo(), "/v1/responses", `{"input":"Hi","temperature":0,"max_output_tokens":2,"include":["message.output_text.logprobs"],"top_logprobs":2}`)
	tokens := at(answer, "output", 0, "content", 0, "logprobs")
	require.Len(t, tokens, 2)
	require.Equal(t, "Hello", at(tokens, 0, "token"))
	require.Len(t, at(tokens, 0, "top_logprobs"), 2)
	ended := postOK(t, demo(), "/v1/responses", `{"input":"Hi","temperature":0}`)
	require.Equal(t, "completed", ended["status"])
	require.Nil(t, ended["incomplete_details"])
}

// TestResponsesGoOn checks that a response continues another one, that it can be asked for and forgotten, and what the server
// remembers.
func TestResponsesGoOn(t *testing.T) {
	s := newDemo(nil)
	defer s.Close()
	count := 0
	s.id = func() string { count++; return fmt.Sprint(count) }
	first := postOK(t, s, "/v1/responses", `{"instructions":"Shout.","input":"Hi","temperature":0}`)
	id, answer := first["id"].(string), at(first, "output", 0, "content", 0, "text").(string)
	const fox = "Tell me a story about a fox."
	second := postOK(t, s, "/v1/responses", `{"previous_response_id":"`+id+`","input":"`+fox+`","temperature":0,"max_output_tokens":8}`)
	messages, err := json.Marshal([]llmrun.Message{{Role: "user", Content: "Hi"}, {Role: "assistant", Content: answer}, {Role: "user", Content: fox}})
	require.NoError(t, err)
	chat := postOK(t, s, "/v1/chat/completions", `{"messages":`+string(messages)+`,"temperature":0,"max_tokens":8}`)
	require.Equal(t, at(chat, "choices", 0, "message", "content"), at(second, "output", 0, "content", 0, "text"))
	require.Equal(t, at(chat, "usage", "prompt_tokens"), at(second, "usage", "input_tokens"), "instructions are not passed on")
	third := postOK(t, s, "/v1/responses", `{"previous_response_id":"`+second["id"].(string)+`","input":"Hi","max_output_tokens":1}`)
	require.Greater(t, at(third, "usage", "input_tokens"), at(second, "usage", "total_tokens"))

	w := ask(s, http.MethodGet, "/v1/responses/"+id, nil)
	var shown map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &shown))
	require.Equal(t, first, shown)
	require.Equal(t, http.StatusOK, ask(s, http.MethodDelete, "/v1/responses/"+id, nil).Code)
	require.Equal(t, http.StatusNotFound, ask(s, http.MethodDelete, "/v1/responses/"+id, nil).Code)
	require.Equal(t, http.StatusNotFound, ask(s, http.MethodGet, "/v1/responses/"+id, nil).Code)
	secret := postOK(t, s, "/v1/responses", `{"store":false,"input":"Hi","max_output_tokens":1}`)
	for _, gone := range []string{id, secret["id"].(string), "resp_none"} {
		w := post(s, "/v1/responses", `{"previous_response_id":"`+gone+`","input":"Hi"}`)
		require.Equal(t, http.StatusBadRequest, w.Code)
		require.Contains(t, w.Body.String(), `"code":"previous_response_not_found"`)
	}
}

// TestResponsesAreBounded checks that the oldest responses make room, by their number and by their bytes.
func TestResponsesAreBounded(t *testing.T) {
	s := &responses{room: 1 << 20}
	add := func(id string, size int) {
		s.add(&response{ID: id}, []llmrun.Message{{Role: "user", Content: strings.Repeat("x", size)}})
	}
	for i := range maxResponses + 1 {
		add(fmt.Sprint(i), 1)
	}
	_, ok := s.find("0")
	require.False(t, ok)
	_, ok = s.find("1")
	require.True(t, ok)
	add("large", 1<<20-2000)
	require.Len(t, s.list, 1+int((1<<20-s.list[len(s.list)-1].bytes)/s.list[0].bytes), "others leave as far as needed")
	require.LessOrEqual(t, s.held, s.room)
	add("too large", 1<<20)
	_, ok = s.find("too large")
	require.False(t, ok)
	_, ok = s.find("large")
	require.True(t, ok, "one that cannot be kept moves none")
	for len(s.list) > 0 {
		require.True(t, s.remove(s.list[0].id))
	}
	require.Zero(t, s.held)
}

// TestResponseThoughts checks the items and events of an answer with thoughts before it.
func TestResponseThoughts(t *testing.T) {
	s := newDemo(nil)
	defer s.Close()
	w := ask(s, http.MethodGet, "/health", nil)
	w.Body.Reset()
	g := &responseRun{responseRequest: &responseRequest{server: s}, stream: newStream(w, true), response: response{Output: []*responseItem{}}}
	for _, p := range []llmrun.Piece{{Text: "Let", Kind: llmrun.KindThinking}, {Text: " me", Kind: llmrun.KindThinking}, {Text: "Yes"}} {
		require.NoError(t, g.piece(&p))
	}
	require.NoError(t, g.finish(&spent{llmrun.Stats{PromptTokens: 2, GeneratedTokens: 3}, 2}))
	var types []any
	for _, e := range responseEvents(t, w.Body.String()) {
		types = append(types, e["type"])
	}
	require.Equal(t, []any{
		"response.created", "response.in_progress",
		"response.output_item.added", "response.content_part.added", "response.reasoning_text.delta", "response.reasoning_text.delta",
		"response.reasoning_text.done", "response.content_part.done", "response.output_item.done",
		"response.output_item.added", "response.content_part.added", "response.output_text.delta",
		"response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed",
	}, types)
	text, err := json.Marshal(g.response.Output)
	require.NoError(t, err)
	require.JSONEq(t, `[{"id":"rs_1","type":"reasoning","status":"completed","summary":[],"content":[{"type":"reasoning_text","text":"Let me"}]},
		{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Yes","annotations":[],"logprobs":[]}]}]`, string(text))
	require.Equal(t, 2, g.response.Usage.OutputDetails.Reasoning)
	require.Equal(t, "Yes", g.got.Text())
}

// TestResponseRefusals checks that a wrong request gets the API's error, which names the field.
func TestResponseRefusals(t *testing.T) {
	for _, c := range []struct{ body, param, message string }{
		{`{}`, "input", "is missing"},
		{`{"input":[]}`, "input", "at least one message"},
		{`{"input":1}`, "input", "must be a list"},
		{`{"input":[{"type":"computer_call"}]}`, "input[0].type", "must be message, reasoning"},
		{`{"input":[{"type":"function_call","name":"x","arguments":"{"}]}`, "input[0].arguments", "text of a JSON object"},
		{`{"input":[{"role":"wizard","content":"x"}]}`, "input[0].role", "system, user or assistant"},
		{`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]}`, "input[0].content[0].type", "only text"},
		{`{"input":"x","max_output_tokens":0}`, "max_output_tokens", "is 0"},
		{`{"input":"x","temperature":"hot"}`, "temperature", "must be a number"},
		{`{"input":"x","truncation":"some"}`, "truncation", "auto or disabled"},
		{`{"input":"x","text":{"format":{"type":"json_schema"}}}`, "text.format.schema", "is missing"},
		{`{"input":"x","text":{"format":{"type":"xml"}}}`, "text.format.type", "text, json_object or json_schema"},
		{`{"input":"x","reasoning":{"effort":"huge"}}`, "reasoning.effort", "none, minimal, low"},
		{`{"input":"x","instructions":7}`, "instructions", "must be a string"},
		{`{"input":"x","background":true}`, "background", "not supported"},
		{`{"input":"x","tools":[{"type":"web_search"}]}`, "tools[0].type", "the server itself has no tools"},
		{`{"input":"x","tools":[{"type":"function"}]}`, "tools[0].name", "must be the name"},
		{`{"input":"x","tools":[{"type":"function","name":"x"}],"tool_choice":{"type":"function","name":"y"}}`, "tool_choice.name", "one of the tools"},
		{`{"input":"x","tool_choice":"required"}`, "tool_choice", "needs tools"},
		{`{"input":"x","include":{}}`, "include", "list of strings"},
	} {
		w := post(demo(), "/v1/responses", c.body)
		require.Equal(t, http.StatusBadRequest, w.Code, "%s: %s", c.body, w.Body)
		var answer openAIErrorBody
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
		require.Equal(t, c.param, *answer.Error.Param, c.body)
		require.Contains(t, answer.Error.Message, c.message, c.body)
	}
}

// testResponseCallsTools checks the calls of a response, whole and as a stream, and that tools, calls and results reach the template as
// those of chat completions do.
func testResponseCallsTools(t *testing.T, tooled *Server) {
	const tools = `"tools":[{"type":"function","name":"weather","description":"the weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}]`
	request := func(stream string) *responseRequest {
		o := newObject([]byte(`{"input":"Hi",` + tools + `,"parallel_tool_calls":false,"tool_choice":"auto","stream":` + stream + `}`))
		r := tooled.readResponseRequest(o)
		require.NoError(t, o.err())
		r.prompt = calling()
		return r
	}
	var whole map[string]any
	require.NoError(t, json.Unmarshal(using(t, tooled, request("false").run).Body.Bytes(), &whole))
	output, err := json.Marshal(whole["output"])
	require.NoError(t, err)
	require.JSONEq(t, `[{"id":"rs_1","type":"reasoning","status":"completed","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},
		{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Let me see.","annotations":[],"logprobs":[]}]},
		{"id":"fc_1","type":"function_call","status":"completed","call_id":"abcdefghi","name":"weather","arguments":"{\"city\": \"Rome\"}"},
		{"id":"fc_1","type":"function_call","status":"completed","call_id":"jklmnopqr","name":"stop","arguments":"{}"}]`, string(output))
	require.Equal(t, false, whole["parallel_tool_calls"])
	require.Equal(t, "weather", at(whole, "tools", 0, "name"))

	var types []any
	for _, e := range responseEvents(t, using(t, tooled, request("true").run).Body.String()) {
		if e["output_index"] == 2.0 {
			types = append(types, e["type"])
		}
	}
	require.Equal(t, []any{
		"response.output_item.added", "response.function_call_arguments.delta", "response.function_call_arguments.delta",
		"response.function_call_arguments.done", "response.output_item.done",
	}, types)

	const input = `"input":[{"role":"user","content":"Weather?"},{"role":"assistant","content":"Let me see."},
		{"type":"function_call","call_id":"abcdefghi","name":"weather","arguments":"{\"city\":\"Rome\"}"},
		{"type":"function_call_output","call_id":"abcdefghi","output":"sunny"},{"role":"user","content":"And?"}],`
	const same = `"messages":[{"role":"user","content":"Weather?"},
		{"role":"assistant","content":"Let me see.","tool_calls":[{"id":"abcdefghi","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}]},
		{"role":"tool","tool_call_id":"abcdefghi","content":"sunny"},{"role":"user","content":"And?"}],"tools":[` + weatherTool + `],`
	got := postOK(t, tooled, "/v1/responses", `{`+input+tools+`,"max_output_tokens":2}`)
	want := postOK(t, tooled, "/v1/chat/completions", `{`+same+`"max_tokens":2}`)
	require.Equal(t, at(want, "usage", "prompt_tokens"), at(got, "usage", "input_tokens"))
}
