package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
)

// TestTools runs tests with a server whose model has a chat template with tools and thoughts.
func TestTools(t *testing.T) {
	dir := t.TempDir()
	// Links would change the times of the files, which other tests have open.
	require.NoError(t, os.CopyFS(dir, os.DirFS(hubmodel.Dir(".."))))
	template, err := os.ReadFile("../text/jinja/testdata/Qwen-Qwen3-0.6B.jinja")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), template, 0o600))
	tooled := newDemo(func(o *Options) {
		o.Models = []Model{{Name: "demo", Path: dir, Options: llmrun.Options{Threads: 2}}}
	})
	defer tooled.Close()
	for name, test := range map[string]func(*testing.T, *Server){
		"chat": testChatCallsTools, "ollama": testOllamaCallsTools, "required": testRequiredCalls,
		"messages": testToolMessages, "thinking": testThinkingOfRequests, "refusals": testToolRefusals,
		"anthropic": testAnthropicCallsTools, "responses": testResponseCallsTools,
	} {
		t.Run(name, func(t *testing.T) { test(t, tooled) })
	}
}

// weatherTool is a tool as clients send it.
const weatherTool = `{"type":"function","function":{"name":"weather","description":"the weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}`

// scripted answers any prompt with pieces.
func scripted(pieces ...llmrun.Piece) prompt {
	return func(context.Context, *llmrun.Session, llmrun.GenerateOptions) iter.Seq2[llmrun.Piece, error] {
		return func(yield func(llmrun.Piece, error) bool) {
			for _, p := range pieces {
				if !yield(p, nil) {
					return
				}
			}
		}
	}
}

// calling is an answer with a thought, a text and two calls.
func calling() prompt {
	return scripted(
		llmrun.Piece{ID: 1, Kind: llmrun.KindThinking, Text: "hm"},
		llmrun.Piece{ID: 2, Text: "Let me see."},
		llmrun.Piece{ID: 3, Kind: llmrun.KindToolCall, Call: &llmrun.ToolCall{ID: "abcdefghi", Name: "weather"}, Text: `{"city"`},
		llmrun.Piece{ID: 4, Kind: llmrun.KindToolCall},
		llmrun.Piece{ID: 5, Kind: llmrun.KindToolCall, Text: `: "Rome"}`, CallEnds: true},
		llmrun.Piece{ID: -1, Kind: llmrun.KindToolCall, Call: &llmrun.ToolCall{ID: "jklmnopqr", Name: "stop"}, Text: `{}`, CallEnds: true},
	)
}

// using calls run with a hold of the demo model.
func using(t *testing.T, s *Server, run func(ctx context.Context, w http.ResponseWriter, u *use) error) *httptest.ResponseRecorder {
	t.Helper()
	ctx := context.WithValue(t.Context(), recordKey{}, &record{})
	model, err := s.models.find("demo")
	require.NoError(t, err)
	engine, err := s.models.use(ctx, model.entry)
	require.NoError(t, err)
	defer s.models.release(model.entry)
	w := httptest.NewRecorder()
	require.NoError(t, run(ctx, w, &use{offered: model, server: s, engine: engine}))
	return w
}

// testChatCallsTools checks the calls of an answer, whole and as a stream.
func testChatCallsTools(t *testing.T, tooled *Server) {
	request := func(stream string) *chatRequest {
		o := newObject([]byte(`{"model":"demo","stream":` + stream + `,"messages":[{"role":"user","content":"Hi"}],"tools":[` + weatherTool + `]}`))
		r := tooled.readChatRequest(o)
		require.NoError(t, o.err())
		r.prompt = calling()
		return r
	}
	var whole map[string]any
	require.NoError(t, json.Unmarshal(using(t, tooled, request("false").run).Body.Bytes(), &whole))
	message, err := json.Marshal(at(whole, "choices", 0, "message"))
	require.NoError(t, err)
	require.JSONEq(t, `{"role":"assistant","content":"Let me see.","reasoning_content":"hm","refusal":null,"tool_calls":[
		{"id":"abcdefghi","type":"function","function":{"name":"weather","arguments":"{\"city\": \"Rome\"}"}},
		{"id":"jklmnopqr","type":"function","function":{"name":"stop","arguments":"{}"}}]}`, string(message))
	require.Equal(t, "tool_calls", at(whole, "choices", 0, "finish_reason"))

	var deltas []string
	for _, line := range strings.Split(using(t, tooled, request("true").run).Body.String(), "\n") {
		if data, ok := strings.CutPrefix(line, "data: {"); ok {
			_, choice, _ := strings.Cut(data, `"choices":[`)
			deltas = append(deltas, strings.TrimSuffix(choice, "]}"))
		}
	}
	part := func(delta string) string {
		return `{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":null}`
	}
	require.Equal(t, []string{
		part(`{"role":"assistant","content":""}`), part(`{"reasoning_content":"hm"}`), part(`{"content":"Let me see."}`),
		part(`{"tool_calls":[{"index":0,"id":"abcdefghi","type":"function","function":{"name":"weather","arguments":"{\"city\""}}]}`),
		part(`{"tool_calls":[{"index":0,"function":{"arguments":": \"Rome\"}"}}]}`),
		part(`{"tool_calls":[{"index":1,"id":"jklmnopqr","type":"function","function":{"name":"stop","arguments":"{}"}}]}`),
		`{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}`,
	}, deltas)
}

// testOllamaCallsTools checks the calls of an answer, whole and as a stream.
func testOllamaCallsTools(t *testing.T, tooled *Server) {
	answer := func(stream string) []string {
		o := newObject([]byte(`{"model":"demo","stream":` + stream + `,"think":true,"truncate":false,"messages":[{"role":"user","content":"Hi"}],"tools":[` + weatherTool + `]}`))
		r, _ := tooled.readOllamaChatRequest(o)
		require.NoError(t, o.err())
		r.prompt = calling()
		var messages []string
		for _, line := range strings.Split(strings.TrimSpace(using(t, tooled, r.run).Body.String()), "\n") {
			var part struct{ Message json.RawMessage }
			require.NoError(t, json.Unmarshal([]byte(line), &part))
			messages = append(messages, string(part.Message))
		}
		return messages
	}
	const weather = `{"id":"abcdefghi","function":{"index":0,"name":"weather","arguments":{"city":"Rome"}}}`
	const stop = `{"id":"jklmnopqr","function":{"index":1,"name":"stop","arguments":{}}}`
	require.Equal(t, []string{`{"role":"assistant","content":"Let me see.","thinking":"hm","tool_calls":[` + weather + `,` + stop + `]}`}, answer("false"))
	require.Equal(t, []string{
		`{"role":"assistant","content":"","thinking":"hm"}`, `{"role":"assistant","content":"Let me see."}`,
		`{"role":"assistant","content":"","tool_calls":[` + weather + `]}`, `{"role":"assistant","content":"","tool_calls":[` + stop + `]}`,
		`{"role":"assistant","content":""}`,
	}, answer("true"))
}

// testRequiredCalls asks a model for a call, which its answer then begins with, whatever it generates.
func testRequiredCalls(t *testing.T, tooled *Server) {
	const ask = `"model":"demo","max_tokens":3,"temperature":0,"messages":[{"role":"user","content":"Hi"}],"tools":[` + weatherTool + `]`
	for _, choice := range []string{`{"type":"function","function":{"name":"weather"}}`} {
		answer := postOK(t, tooled, "/v1/chat/completions", `{`+ask+`,"reasoning_effort":"none","tool_choice":`+choice+`}`)
		require.Equal(t, "weather", at(answer, "choices", 0, "message", "tool_calls", 0, "function", "name"), answer)
		require.Nil(t, at(answer, "choices", 0, "message", "content"))
	}
	const most = 125
	call := func(t *testing.T, fields string) (answer map[string]any) {
		t.Helper()
		answer = postOK(t, tooled, "/v1/chat/completions", fmt.Sprintf(`{"model":"demo","max_tokens":%d,"seed":1,"messages":[{"role":"user","content":"Hi"}],"tools":[%s]%s}`, most, weatherTool, fields))
		var arguments map[string]string
		require.Equal(t, "weather", at(answer, "choices", 0, "message", "tool_calls", 0, "function", "name"), answer)
		written, _ := at(answer, "choices", 0, "message", "tool_calls", 0, "function", "arguments").(string)
		require.NoError(t, json.Unmarshal([]byte(written), &arguments), "the arguments are held to their schema: %v", answer)
		delete(arguments, "city")
		require.Empty(t, arguments)
		require.Equal(t, "tool_calls", at(answer, "choices", 0, "finish_reason"))
		require.Nil(t, at(answer, "choices", 0, "message", "content"))
		return answer
	}
	atOnce := call(t, `,"reasoning_effort":"none","tool_choice":"required"`)
	require.Nil(t, at(atOnce, "choices", 0, "message", "reasoning_content"))
	require.Zero(t, at(atOnce, "usage", "completion_tokens_details", "reasoning_tokens"))
	// A model that thinks does so before the call. This one knows no mark that would end its thoughts: they end where the call
	// needs the tokens that are left, or where the model would end the answer.
	for _, fields := range []string{`,"tool_choice":"required"`, `,"reasoning_effort":"low","tool_choice":{"type":"function","function":{"name":"weather"}}`} {
		answer := call(t, fields)
		thoughts, all := at(answer, "usage", "completion_tokens_details", "reasoning_tokens").(float64), at(answer, "usage", "completion_tokens").(float64)
		require.LessOrEqual(t, all, float64(most))
		require.Greater(t, thoughts, float64(most)/10)
		require.Less(t, thoughts, all)
		require.NotEmpty(t, at(answer, "choices", 0, "message", "reasoning_content"))
	}
	ended := call(t, `,"logit_bias":{"`+fmt.Sprint(endOf(t, tooled))+`":100},"tool_choice":"required"`)
	require.Less(t, at(ended, "usage", "completion_tokens"), float64(most)/2, "the model wants to end at once")
	testRequiredCallsWithAFormat(t, tooled)
	plain := postOK(t, tooled, "/v1/chat/completions", `{`+ask+`,"tool_choice":"none"}`)
	require.Nil(t, at(plain, "choices", 0, "message", "tool_calls"))
	without := postOK(t, tooled, "/v1/chat/completions", `{"model":"demo","max_tokens":3,"temperature":0,"messages":[{"role":"user","content":"Hi"}]}`)
	require.Equal(t, at(without, "usage", "prompt_tokens"), at(plain, "usage", "prompt_tokens"), "without tools the prompt does not have them")
	offered := postOK(t, tooled, "/v1/chat/completions", `{`+ask+`}`)
	require.Greater(t, at(offered, "usage", "prompt_tokens"), at(plain, "usage", "prompt_tokens").(float64)+20)
}

// testRequiredCallsWithAFormat asks for a call and for an answer in a format: the answer is a call, to which the format does not apply. If the schema of its
// tool is not supported, its arguments are any object.
func testRequiredCallsWithAFormat(t *testing.T, tooled *Server) {
	t.Helper()
	const format = `{"type":"json_schema","json_schema":{"name":"a","strict":true,"schema":{"type":"object","properties":{"only":{"const":"this"}},"required":["only"]}}}`
	for _, parameters := range []string{`{"type":"object","properties":{"city":{"type":"string"}}}`, `{"type":"object","not":{"required":["only"]}}`} {
		ask := `{"max_tokens":48,"temperature":1,"seed":3,"messages":[{"role":"user","content":"Hi"}],"reasoning_effort":"none",` +
			`"tools":[{"type":"function","function":{"name":"weather","parameters":` + parameters + `}}],"tool_choice":"required"`
		want := at(postOK(t, tooled, "/v1/chat/completions", ask+`}`), "choices", 0, "message", "tool_calls", 0, "function")
		require.Equal(t, "weather", at(want, "name"))
		got := at(postOK(t, tooled, "/v1/chat/completions", ask+`,"response_format":`+format+`}`), "choices", 0, "message", "tool_calls", 0, "function")
		require.Equal(t, want, got, parameters)
		arguments, _ := at(got, "arguments").(string)
		require.True(t, strings.HasPrefix(arguments, "{") && json.Valid([]byte(arguments)), arguments)
	}
}

// endOf returns the token with which the model ends its answers.
func endOf(t *testing.T, s *Server) (id int32) {
	t.Helper()
	using(t, s, func(_ context.Context, _ http.ResponseWriter, u *use) error {
		t := u.engine.Tokenizer()
		for piece := ""; piece != "<|im_end|>" && piece != "</s>"; id++ {
			piece, _ = t.Piece(id)
		}
		id--
		return nil
	})
	return id
}

// testToolMessages sends results of calls as the clients of both APIs do, and compares the prompts, whose length is reported.
func testToolMessages(t *testing.T, tooled *Server) {
	openAI := postOK(t, tooled, "/v1/chat/completions", `{"model":"demo","max_tokens":1,"tools":[`+weatherTool+`],"messages":[{"role":"user","content":"Hi"},
		{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\": \"Rome\"}"}}]},
		{"role":"tool","tool_call_id":"call_1","content":[{"type":"text","text":"sunny"}]}]}`)
	ollama := postOK(t, tooled, "/api/chat", `{"model":"demo","stream":false,"options":{"num_predict":1},"tools":[`+weatherTool+`],"messages":[{"role":"user","content":"Hi"},
		{"role":"assistant","content":"","tool_calls":[{"function":{"name":"weather","arguments":{"city":"Rome"}}}]},
		{"role":"tool","tool_name":"weather","content":"sunny"}]}`)
	require.Positive(t, at(ollama, "prompt_eval_count"))
	require.Equal(t, at(openAI, "usage", "prompt_tokens"), at(ollama, "prompt_eval_count"))
}

// testThinkingOfRequests checks that effort and think reach the template, and that a model without thoughts refuses them as ollama does.
func testThinkingOfRequests(t *testing.T, tooled *Server) {
	tokens := func(field string) any {
		return at(postOK(t, tooled, "/v1/chat/completions", `{"model":"demo","max_tokens":1,"messages":[{"role":"user","content":"Hi"}]`+field+`}`), "usage", "prompt_tokens")
	}
	plain := tokens("")
	require.Equal(t, plain, tokens(`,"reasoning_effort":"high"`))
	off := tokens(`,"reasoning_effort":"none"`)
	require.Greater(t, off, plain, "the template writes empty thoughts")
	think := func(think string) any {
		return at(postOK(t, tooled, "/api/chat", `{"model":"demo","stream":false,"options":{"num_predict":1},"think":`+think+`,"messages":[{"role":"user","content":"Hi"}]}`), "prompt_eval_count")
	}
	require.Equal(t, off, think("false"))
	require.Equal(t, plain, think("true"))
	require.Equal(t, plain, think(`"low"`))

	require.Equal(t, []any{"completion", "tools", "thinking"}, at(postOK(t, tooled, "/api/show", `{"model":"demo"}`), "capabilities"))

	const hi = `{"model":"demo","stream":false,"messages":[{"role":"user","content":"Hi"}],"options":{"num_predict":1}`
	w := post(demo(), "/api/chat", hi+`,"think":true}`)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.JSONEq(t, `{"error":"\"demo\" does not support thinking"}`, w.Body.String())
	postOK(t, demo(), "/api/chat", hi+`,"think":false}`)
}

// TestToolsWithoutATemplateForThem checks that a model whose chat template has no tools is told of them, and can be made to call one, by
// each API.
func TestToolsWithoutATemplateForThem(t *testing.T) {
	require.Equal(t, []any{"completion", "tools"}, at(postOK(t, demo(), "/api/show", `{"model":"demo"}`), "capabilities"))
	const ask = `"max_tokens":2,"temperature":0,"messages":[{"role":"user","content":"Hi"}]`
	const required = `,"tools":[` + weatherTool + `],"tool_choice":{"type":"function","function":{"name":"weather"}}`
	plain := at(postOK(t, demo(), "/v1/chat/completions", `{`+ask+`}`), "usage", "prompt_tokens")
	chat := postOK(t, demo(), "/v1/chat/completions", `{`+ask+required+`}`)
	require.Greater(t, at(chat, "usage", "prompt_tokens"), plain.(float64)+100)
	require.Equal(t, "weather", at(chat, "choices", 0, "message", "tool_calls", 0, "function", "name"))
	require.Nil(t, at(chat, "choices", 0, "message", "content"))
	const anthropicTools = `,"tools":[{"name":"weather","description":"the weather","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}]`
	message := postOK(t, demo(), "/v1/messages", `{`+ask+anthropicTools+`,"tool_choice":{"type":"tool","name":"weather"}}`)
	require.Equal(t, "tool_use", at(message, "content", 0, "type"))
	require.Equal(t, "weather", at(message, "content", 0, "name"))
	response := postOK(t, demo(), "/v1/responses", `{"input":"Hi","max_output_tokens":2,"tools":[{"type":"function","name":"weather"}],"tool_choice":{"type":"function","name":"weather"}}`)
	require.Equal(t, "function_call", at(response, "output", 0, "type"))
	require.Equal(t, "weather", at(response, "output", 0, "name"))
	ollama := postOK(t, demo(), "/api/chat", `{"stream":false,"messages":[{"role":"user","content":"Hi"}],"options":{"num_predict":1},"tools":[`+weatherTool+`]}`)
	require.Greater(t, at(ollama, "prompt_eval_count"), plain.(float64)+100)
}

// TestAllowedTools offers some of the tools, as if there were no others, and requires a call of one of them.
func TestAllowedTools(t *testing.T) {
	const other = `{"type":"function","function":{"name":"other"}}`
	const ask = `{"max_tokens":12,"temperature":0,"messages":[{"role":"user","content":"Hi"}],"tools":[` + weatherTool
	const allow = `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":[{"type":"function","function":{"name":"weather"}}],"mode":`
	tokens := func(body string) any {
		return at(postOK(t, demo(), "/v1/chat/completions", body), "usage", "prompt_tokens")
	}
	require.Equal(t, tokens(ask+`]}`), tokens(ask+`,`+other+`]`+allow+`"auto"}}}`))
	required := postOK(t, demo(), "/v1/chat/completions", ask+`,`+other+`]`+allow+`"required"}}}`)
	require.Equal(t, "weather", at(required, "choices", 0, "message", "tool_calls", 0, "function", "name"))
	const flat = `{"max_output_tokens":12,"temperature":0,"input":"Hi","tools":[{"type":"function","name":"weather"}`
	const allowFlat = `,"tool_choice":{"type":"allowed_tools","tools":[{"type":"function","name":"weather"}],"mode":`
	respond := func(body string) any { return postOK(t, demo(), "/v1/responses", body) }
	require.Equal(t, at(respond(flat+`]}`), "usage", "input_tokens"), at(respond(flat+`,{"type":"function","name":"other"}]`+allowFlat+`"auto"}}`), "usage", "input_tokens"))
	called := respond(flat + `,{"type":"function","name":"other"}]` + allowFlat + `"required"}}`)
	require.Equal(t, "weather", at(called, "output", 0, "name"))
	require.Equal(t, "allowed_tools", at(called, "tool_choice", "type"))
	refused := post(demo(), "/v1/responses", flat+`],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"none"}]}}`)
	require.Equal(t, http.StatusBadRequest, refused.Code)
	require.Contains(t, refused.Body.String(), "tool_choice.tools[0].name must be one of the tools")
	w := post(demo(), "/v1/chat/completions", ask+`]`+allow+`"some"}}}`)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "tool_choice.allowed_tools.mode must be auto or required")
}

// TestOtherPartsOfMessages sends texts in the parts in which clients return refusals and documents: prompts are those of the texts.
func TestOtherPartsOfMessages(t *testing.T) {
	for path, messages := range map[string][]string{
		"/v1/chat/completions": {
			`{"role":"user","content":"Hi"},{"role":"assistant","content":"I cannot."},{"role":"user","content":"Why?"}`,
			`{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"refusal","refusal":"I cannot."}]},{"role":"user","content":"Why?"}`,
			`{"role":"user","content":"Hi"},{"role":"assistant","content":null,"refusal":"I cannot."},{"role":"user","content":"Why?"}`,
			`{"role":"user","content":"Hi"},{"role":"assistant","content":"I cannot.","refusal":null},{"role":"user","content":"Why?"}`,
		},
		"/v1/messages": {
			`{"role":"user","content":"A fox ran."}`,
			`{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"A fox ran."},"title":"x"}]}`,
		},
	} {
		var first any
		for i := range messages {
			usage := at(postOK(t, demo(), path, `{"max_tokens":2,"temperature":0,"messages":[`+messages[i]+`]}`), "usage")
			if i == 0 {
				first = usage
			}
			for _, tokens := range []string{"prompt_tokens", "input_tokens"} {
				require.Equal(t, at(first, tokens), at(usage, tokens), messages[i])
			}
		}
	}
	w := post(demo(), "/v1/messages", `{"max_tokens":2,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":""}}]}]}`)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "of documents only text is supported")
}

// testToolRefusals checks the fields that are named.
func testToolRefusals(t *testing.T, tooled *Server) {
	const hi = `{"model":"demo","messages":[{"role":"user","content":"Hi"}`
	for body, want := range map[string]string{
		hi + `],"tools":[{"type":"web_search"}]}`:                                                             "tools[0].type must be function",
		hi + `],"tools":[{"function":{}}]}`:                                                                   "tools[0].function.name must be the name of the tool",
		hi + `],"tools":[{"function":{"name":"a","parameters":[]}}]}`:                                         "tools[0].function.parameters must be an object",
		hi + `],"tools":[` + weatherTool + `],"tool_choice":"some"}`:                                          "tool_choice must be auto, none, required, or an object with the name of a tool",
		hi + `],"tools":[` + weatherTool + `],"tool_choice":{"type":"function","function":{"name":"other"}}}`: "tool_choice.function.name must be one of the tools",
		hi + `],"tool_choice":"required"}`:                                                                    "tool_choice needs tools",
		hi + `,{"role":"assistant","tool_calls":[{"function":{"name":"a","arguments":"[1"}}]}]}`:              "messages[1].tool_calls[0].function.arguments must be a JSON object",
		hi + `,{"role":"user","content":"a","tool_calls":[{"id":"1"}]}]}`:                                     "messages[1].tool_calls can only be an assistant's",
		hi + `],"reasoning_effort":"much"}`:                                                                   "reasoning_effort must be none, minimal, low, medium, high or xhigh",
	} {
		w := post(tooled, "/v1/chat/completions", body)
		require.Equal(t, http.StatusBadRequest, w.Code, body)
		var got map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
		require.Equal(t, want, at(got, "error", "message"), body)
	}
}

// TestStrictToolsOfEachDialect offers a strict tool that the model may call, with a schema that is not supported, by each API: the request is
// refused with the path of the keyword. It is not if the tool is not strict.
func TestStrictToolsOfEachDialect(t *testing.T) {
	const schema = `{"type":"object","properties":{"city":{"not":{}}}}`
	const messages = `{"max_tokens":1,"stream":false,"messages":[{"role":"user","content":"Hi"}],"tools":[`
	for path, body := range map[string]string{
		"/v1/chat/completions": messages + `{"type":"function","function":{"name":"weather","parameters":` + schema + `,"strict":%v}}]}`,
		"/v1/responses":        `{"input":"Hi","max_output_tokens":1,"tools":[{"type":"function","name":"weather","parameters":` + schema + `,"strict":%v}]}`,
		"/v1/messages":         messages + `{"name":"weather","input_schema":` + schema + `,"strict":%v}]}`,
		"/api/chat":            messages + `{"type":"function","function":{"name":"weather","parameters":` + schema + `,"strict":%v}}],"options":{"num_predict":1}}`,
	} {
		postOK(t, demo(), path, fmt.Sprintf(body, false))
		w := post(demo(), path, fmt.Sprintf(body, true))
		require.Equal(t, http.StatusBadRequest, w.Code, path)
		require.Contains(t, w.Body.String(), "tool weather: ", path)
		require.Contains(t, w.Body.String(), "city/not", path)
	}
}
