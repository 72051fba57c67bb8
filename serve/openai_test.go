package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/modeltest"
)

const foxMessages = `"messages":[{"role":"user","content":"Tell me a story about a fox."}]`

// TestChatCompletion checks a whole answer, and that its shape is that of the API.
func TestChatCompletion(t *testing.T) {
	w := post(demo(), "/v1/chat/completions", `{"model":"demo",`+foxMessages+`,"max_tokens":5,"temperature":0,"user":"x","unknown":[{}]}`)
	require.JSONEq(t, `{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1795867200, "model": "demo",
		"choices": [{
			"index": 0, "message": {"role": "assistant", "content": "Once there lived a funny", "refusal": null},
			"logprobs": null, "finish_reason": "length"
		}],
		"usage": {"prompt_tokens": 18, "completion_tokens": 5, "total_tokens": 23, "prompt_tokens_details": {"cached_tokens": `+
		fmt.Sprint(cachedTokens(t, w.Body.Bytes()))+`}, "completion_tokens_details": {"reasoning_tokens": 0}}
	}`, w.Body.String())
}

// cachedTokens returns the cached tokens of an answer, which depend on what other tests asked before.
func cachedTokens(t *testing.T, body []byte) int {
	t.Helper()
	var answer struct{ Usage openAIUsage }
	require.NoError(t, json.Unmarshal(body, &answer))
	require.Less(t, answer.Usage.PromptDetails.Cached, answer.Usage.Prompt)
	return answer.Usage.PromptDetails.Cached
}

// TestChatStream checks every event of an answer.
func TestChatStream(t *testing.T) {
	const head = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795867200,"model":"demo","choices":[`
	chunk := func(delta, reason string) string {
		return "data: " + head + `{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + reason + "}]}\n\n"
	}
	w := post(demo(), "/v1/chat/completions", `{"model":"demo","stream":true,`+foxMessages+`,"max_completion_tokens":3,"max_tokens":9,"temperature":0}`)
	require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	require.Equal(t, "no-cache", w.Header().Get("Cache-Control"))
	want := chunk(`{"role":"assistant","content":""}`, "null") + chunk(`{"content":"Once"}`, "null") +
		chunk(`{"content":" there"}`, "null") + chunk(`{"content":" lived"}`, "null") + chunk(`{}`, `"length"`)
	require.Equal(t, want+"data: [DONE]\n\n", w.Body.String())

	w = post(demo(), "/v1/chat/completions", `{"model":"demo","stream":true,"stream_options":{"include_usage":true},`+foxMessages+`,"max_tokens":3,"temperature":0}`)
	rest, ok := strings.CutPrefix(w.Body.String(), strings.ReplaceAll(want, "}]}\n", `}],"usage":null}`+"\n")+"data: ")
	require.True(t, ok, w.Body.String())
	usage, ok := strings.CutSuffix(rest, "\n\ndata: [DONE]\n\n")
	require.True(t, ok, rest)
	require.JSONEq(t, head+`],"usage":{"prompt_tokens":18,"completion_tokens":3,"total_tokens":21,"prompt_tokens_details":{"cached_tokens":`+
		fmt.Sprint(cachedTokens(t, []byte(usage)))+`},"completion_tokens_details":{"reasoning_tokens":0}}}`, usage)
}

// TestChatOptions checks that each option reaches the model.
func TestChatOptions(t *testing.T) {
	content := func(options string) string {
		answer := postOK(t, demo(), "/v1/chat/completions", `{"model":"demo",`+foxMessages+`,"max_tokens":8,`+options+`}`)
		return at(answer, "choices", 0, "message", "content").(string)
	}
	greedy := content(`"temperature":0`)
	require.Equal(t, "Once there lived a funny fox called Rosa", greedy)
	seeded := content(`"temperature":1.5,"seed":7`)
	require.Equal(t, seeded, content(`"temperature":1.5,"seed":7`), "a seed repeats the answer")
	require.NotEqual(t, seeded, content(`"temperature":1.5,"seed":9`))
	require.Equal(t, greedy, content(`"temperature":1.5,"seed":7,"top_k":1`))
	require.Equal(t, greedy, content(`"temperature":1.5,"seed":7,"top_p":0`))
	require.Equal(t, "Once there lived a", content(`"temperature":0,"stop":" funny"`))
	require.Equal(t, "Once there", content(`"temperature":0,"stop":["", " funny"," lived"]`))
	require.NotContains(t, content(`"temperature":0,"logit_bias":{"`+fmt.Sprint(tokenOf(t, " fox"))+`":-100}`), "fox")
	longer := func(options string) any {
		answer := postOK(t, demo(), "/v1/chat/completions", `{`+foxMessages+`,"max_tokens":14,"temperature":0`+options+`}`)
		return at(answer, "choices", 0, "message", "content")
	}
	require.NotEqual(t, longer(""), longer(`,"presence_penalty":2`))
	require.NotEqual(t, longer(""), longer(`,"frequency_penalty":2`))

	answer := postOK(t, demo(), "/v1/chat/completions", `{`+foxMessages+`,"max_tokens":4,"temperature":0,"stop":" lived"}`)
	require.Equal(t, "stop", at(answer, "choices", 0, "finish_reason"), "and the only model needs no name")
	parts := postOK(t, demo(), "/v1/chat/completions", `{"messages":[{"role":"developer","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"Tell me a story "},{"type":"text","text":"about a fox."}]}],"max_tokens":4,"temperature":0}`)
	whole := postOK(t, demo(), "/v1/chat/completions", `{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Tell me a story about a fox."}],"max_tokens":4,"temperature":0}`)
	require.Equal(t, at(whole, "choices"), at(parts, "choices"))
}

// tokenOf returns the id of a token of the model.
func tokenOf(t testing.TB, text string) int32 {
	t.Helper()
	e, err := demo().models.find("demo")
	require.NoError(t, err)
	engine, err := demo().models.use(t.Context(), e.entry)
	require.NoError(t, err)
	defer demo().models.release(e.entry)
	for id := range int32(engine.Tokenizer().VocabSize()) {
		if string(engine.Tokenizer().Bytes(id)) == text {
			return id
		}
	}
	t.Fatalf("the model has no token %q", text)
	return -1
}

// TestChoices checks that the choices of a request are the answers to its seeds, whole and streamed, and that they share
// the prompt's tokens.
func TestChoices(t *testing.T) {
	const options = foxMessages + `,"max_tokens":5,"temperature":1.2,`
	three := postOK(t, demo(), "/v1/chat/completions", `{`+options+`"seed":40,"n":3}`)
	require.Len(t, at(three, "choices"), 3)
	texts := map[int]string{}
	for i := range 3 {
		one := postOK(t, demo(), "/v1/chat/completions", fmt.Sprintf(`{%s"seed":%d}`, options, 40+i))
		require.Equal(t, at(one, "choices", 0, "message"), at(three, "choices", i, "message"))
		require.EqualValues(t, i, at(three, "choices", i, "index"))
		texts[i] = at(one, "choices", 0, "message", "content").(string)
	}
	require.EqualValues(t, 18, at(three, "usage", "prompt_tokens"), "the prompt counts once")
	require.EqualValues(t, 15, at(three, "usage", "completion_tokens"))

	streamed := map[int]string{}
	body := post(demo(), "/v1/chat/completions", `{"stream":true,`+options+`"seed":40,"n":3}`).Body.String()
	for _, event := range strings.Split(body, "\n\n") {
		var chunk openAIAnswer[chatChoice]
		if json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &chunk) == nil {
			for _, c := range chunk.Choices {
				if c.Delta.Content != nil {
					streamed[c.Index] += *c.Delta.Content
				}
			}
		}
	}
	require.Equal(t, texts, streamed)
}

// TestChoicesShareTheirPasses counts the passes of a request with several choices, whole and streamed: one after the other, they would
// take a pass for each token. The parts of streamed choices come as their tokens do, beside each other.
func TestChoicesShareTheirPasses(t *testing.T) {
	const n, tokens = 4, 24
	for path, prompt := range map[string]string{"/v1/chat/completions": foxMessages, "/v1/completions": `"prompt":"Once upon a time"`} {
		s := demo()
		postOK(t, s, path, `{`+prompt+`,"max_tokens":1}`) // opens the model
		before := passesOf(t, s)
		request := fmt.Sprintf(`{%s,"max_tokens":%d,"temperature":0.8,"seed":3,"n":%d`, prompt, tokens, n)
		got := postOK(t, s, path, request+`}`)
		require.Len(t, at(got, "choices"), n)
		generated := int(at(got, "usage", "completion_tokens").(float64))
		require.Greater(t, generated, n*tokens/2)
		require.Less(t, passesOf(t, s)-before, generated*3/4, "passes, with %d tokens", generated)

		before = passesOf(t, s)
		changes, last := 0, -1
		ended := map[int]bool{}
		events := strings.Split(post(s, path, request+`,"stream":true,"stream_options":{"include_usage":true}}`).Body.String(), "\n\n")
		for _, event := range events[:len(events)-3] { // usage, the mark of the end, and nothing
			var chunk openAIAnswer[completionChoice]
			require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &chunk))
			require.Len(t, chunk.Choices, 1)
			c := chunk.Choices[0]
			require.False(t, ended[c.Index], "parts of choice %d behind its end", c.Index)
			if ended[c.Index] = c.FinishReason != nil; c.Index != last {
				changes, last = changes+1, c.Index
			}
		}
		require.Len(t, ended, n)
		require.Greater(t, changes, tokens, "choices beside each other")
		require.Contains(t, events[len(events)-3], fmt.Sprintf(`"completion_tokens":%d,`, generated))
		require.Less(t, passesOf(t, s)-before, generated*3/4, "passes, with %d tokens", generated)
	}
}

// TestStreamedChoicesGoOn generates a choice again for which there was no memory beside another one: the client has the part that it
// got before once.
func TestStreamedChoicesGoOn(t *testing.T) {
	w := httptest.NewRecorder()
	tries := map[int]int{}
	var a openAIChoices[completionChoice]
	var mu sync.Mutex
	r := &openAIRequest{server: demo(), stream: true, n: 2}
	err := a.run(t.Context(), w, r, 2, 2, func(prompt, j int, begun func()) (got generated[completionChoice], err error) {
		begun()
		mu.Lock()
		tries[2*prompt+j]++
		first := tries[2*prompt+j] == 1
		mu.Unlock()
		for i := range 3 {
			if prompt == 1 && j == 1 && i == 2 && first {
				return got, llmrun.ErrBudget
			}
			if err := a.send(2*prompt+j, completionChoice{Text: fmt.Sprint(i)}); err != nil {
				return got, err
			}
		}
		got.choice.Text = "!"
		return got, nil
	})
	require.NoError(t, err)
	texts := map[int]string{}
	for _, event := range strings.Split(w.Body.String(), "\n\n") {
		var chunk openAIAnswer[completionChoice]
		if json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &chunk) == nil {
			texts[chunk.Choices[0].Index] += chunk.Choices[0].Text
		}
	}
	require.Equal(t, map[int]string{0: "012!", 1: "012!", 2: "012!", 3: "012!"}, texts)
	require.Equal(t, map[int]int{0: 1, 1: 1, 2: 1, 3: 2}, tries)
}

// passesOf returns the passes that a server's metrics count.
func passesOf(t *testing.T, s *Server) int {
	t.Helper()
	return metricOf(t, s, "llmrun_passes_total")
}

// metricOf returns the number that a server's metrics have behind a name.
func metricOf(t *testing.T, s *Server, name string) (n int) {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/metrics", http.NoBody))
	_, rest, ok := strings.Cut(w.Body.String(), "\n"+name+" ")
	require.True(t, ok)
	_, err := fmt.Sscan(rest, &n)
	require.NoError(t, err)
	return n
}

// TestTokensAreCountedDuringAnAnswer reads the metrics while an answer is generated: the prompt is counted with the first token, and each token
// and pass at once, so that tokens per pass can be derived at any time.
func TestTokensAreCountedDuringAnAnswer(t *testing.T) {
	s := newDemo(nil)
	defer s.Close()
	counters := func() [3]int {
		return [3]int{metricOf(t, s, `llmrun_tokens_total{kind="prompt"}`), metricOf(t, s, `llmrun_tokens_total{kind="generated"}`), passesOf(t, s)}
	}
	using(t, s, func(ctx context.Context, _ http.ResponseWriter, u *use) error {
		n := 0
		took, err := u.generate(ctx, textPrompt("Once upon a time"), llmrun.GenerateOptions{MaxTokens: 6}, func(p *llmrun.Piece) error {
			if p.ID >= 0 {
				n++
			}
			now := counters()
			require.Positive(t, now[0])
			require.Equal(t, n, now[1])
			require.Positive(t, now[2])
			return nil
		})
		require.NoError(t, err)
		last := counters()
		require.Equal(t, []int{took.PromptTokens, took.GeneratedTokens}, last[:2])
		return nil
	})
}

// TestBestOf compares the choices of best_of with those of as many seeds: the likeliest ones, best first.
func TestBestOf(t *testing.T) {
	for seed := 7; ; seed++ {
		require.Less(t, seed, 20, "the first seeds have the likeliest answers")
		options := fmt.Sprintf(`"prompt":"Once upon a time","max_tokens":8,"temperature":1.2,"seed":%d,`, seed)
		all := postOK(t, demo(), "/v1/completions", `{`+options+`"logprobs":0,"n":4}`)
		mean := func(i int) (sum float64) {
			list := at(all, "choices", i, "logprobs", "token_logprobs").([]any)
			for _, x := range list {
				sum += x.(float64)
			}
			return sum / float64(len(list))
		}
		order := []int{0, 1, 2, 3}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(mean(b), mean(a)) })
		if slices.Equal(order[:2], []int{0, 1}) {
			continue
		}
		best := postOK(t, demo(), "/v1/completions", `{`+options+`"best_of":4,"n":2}`)
		require.Len(t, at(best, "choices"), 2)
		for i := range 2 {
			require.Equal(t, at(all, "choices", order[i], "text"), at(best, "choices", i, "text"))
			require.EqualValues(t, i, at(best, "choices", i, "index"))
			require.Nil(t, at(best, "choices", i, "logprobs"), "the request asks for none")
		}
		require.Equal(t, at(all, "usage", "completion_tokens"), at(best, "usage", "completion_tokens"), "all tokens count")
		return
	}
}

// TestLogProbs checks the probabilities of both endpoints, whole and streamed.
func TestLogProbs(t *testing.T) {
	const options = `"max_tokens":3,"temperature":0,`
	chat := postOK(t, demo(), "/v1/chat/completions", `{`+foxMessages+`,`+options+`"logprobs":true,"top_logprobs":2}`)
	tokens := at(chat, "choices", 0, "logprobs", "content")
	require.Len(t, tokens, 3)
	require.Equal(t, "Once", at(tokens, 0, "token"))
	require.Equal(t, []any{79.0, 110.0, 99.0, 101.0}, at(tokens, 0, "bytes"))
	require.InDelta(t, -0.92, at(tokens, 0, "logprob"), 0.02)
	require.Len(t, at(tokens, 0, "top_logprobs"), 2)
	require.Equal(t, at(tokens, 0, "logprob"), at(tokens, 0, "top_logprobs", 0, "logprob"), "greedy takes the first")
	plain := postOK(t, demo(), "/v1/chat/completions", `{`+foxMessages+`,`+options+`"logprobs":true}`)
	require.Equal(t, []any{}, at(plain, "choices", 0, "logprobs", "content", 0, "top_logprobs"))

	var streamed []any
	body := post(demo(), "/v1/chat/completions", `{"stream":true,`+foxMessages+`,`+options+`"logprobs":true,"top_logprobs":2}`).Body.String()
	for _, event := range strings.Split(body, "\n\n") {
		var chunk map[string]any
		if json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &chunk) == nil {
			if list, ok := at(chunk, "choices", 0, "logprobs", "content").([]any); ok {
				streamed = append(streamed, list...)
			}
		}
	}
	require.Equal(t, tokens, any(streamed))

	completion := postOK(t, demo(), "/v1/completions", `{"prompt":"Once upon a time",`+options+`"logprobs":1}`)
	got := at(completion, "choices", 0, "logprobs")
	require.Equal(t, []any{",", " there", " was"}, at(got, "tokens"))
	require.Equal(t, []any{0.0, 1.0, 7.0}, at(got, "text_offset"))
	require.Equal(t, at(got, "token_logprobs", 0), at(got, "top_logprobs", 0, ","))
	require.EqualValues(t, -9999, jsonLogProb(float32(math.Inf(-1))), "JSON has no infinity")

	// Tokens that end within a character, and are not likely.
	completion = postOK(t, demo(), "/v1/completions", `{"prompt":"Once","max_tokens":20,"seed":1,"logprobs":1,"response_format":{"type":"json_schema","json_schema":{"schema":{"enum":["世界 fox"]}}}}`)
	require.Equal(t, `"世界 fox"`, at(completion, "choices", 0, "text"))
	got = at(completion, "choices", 0, "logprobs")
	require.Equal(t, []any{"\"", "\uFFFD", "\uFFFD", "\uFFFD", "\uFFFD", "\uFFFD", "\uFFFD", " fox", "\""}, at(got, "tokens"))
	require.Equal(t, []any{0.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0, 7.0}, at(got, "text_offset"))
	require.Equal(t, at(got, "token_logprobs", 7), at(got, "top_logprobs", 7, " fox"), "beside the likeliest one")
	require.Len(t, at(got, "top_logprobs", 7), 2)
}

// TestModelsWithoutTokenizers checks that answers of ids alone name their tokens by these, and need no text of them.
func TestModelsWithoutTokenizers(t *testing.T) {
	s := newDemo(func(o *Options) {
		o.Models[0] = Model{Name: "ids", Path: modeltest.Fixture(t, "llama32"), Options: llmrun.Options{Threads: 2}}
	})
	defer s.Close()
	const ids = `{"prompt":[1,2,3],"max_tokens":2,"temperature":0,`
	both := postOK(t, s, "/v1/completions", ids+`"logprobs":1,"n":2}`)
	for i := range 2 {
		got := at(both, "choices", i, "logprobs")
		require.Len(t, at(got, "tokens"), 2)
		token := at(got, "tokens", 0).(string)
		require.Regexp(t, `^token_id:\d+$`, token)
		require.Equal(t, at(got, "token_logprobs", 0), at(got, "top_logprobs", 0, token))
		require.Equal(t, []any{0.0, 0.0}, at(got, "text_offset"))
	}
	w := post(s, "/v1/completions", `{"prompt":"a","suffix":"b"}`)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "needs a model that fills gaps")
}

// TestPanicsOfChoices checks that a panic in the goroutine of a choice reaches that of its request, where net/http ends the request alone,
// behind the other choices.
func TestPanicsOfChoices(t *testing.T) {
	for broken := range 2 {
		var ended atomic.Int32
		require.PanicsWithValue(t, fmt.Sprintf("choice %d: broken", broken), func() {
			defer func() {
				value := recover()
				first, stack, _ := strings.Cut(value.(string), "\n")
				require.Contains(t, stack, "TestPanicsOfChoices")
				panic(first)
			}()
			_ = together(2, func(i int, begun func()) error {
				if i == broken {
					panic("broken")
				}
				begun()
				ended.Add(1)
				return nil
			})
		})
		require.EqualValues(t, broken, ended.Load())
	}
}

// TestCompletions checks the forms of prompts, and a stream.
func TestCompletions(t *testing.T) {
	const options = `"max_tokens":3,"temperature":0`
	text := func(prompt string) any {
		return at(postOK(t, demo(), "/v1/completions", `{"prompt":`+prompt+`,`+options+`}`), "choices", 0, "text")
	}
	require.Equal(t, ", there was", text(`"Once upon a time"`))
	require.Equal(t, ", there was", text(`[898,610,262,521]`), "token ids")
	both := postOK(t, demo(), "/v1/completions", `{"prompt":["Once upon a time",[898,610,262,521]],"n":2,`+options+`}`)
	require.Len(t, at(both, "choices"), 4)
	for i := range 4 {
		require.Equal(t, ", there was", at(both, "choices", i, "text"))
		require.EqualValues(t, i, at(both, "choices", i, "index"))
	}
	require.Equal(t, "text_completion", at(both, "object"))
	require.EqualValues(t, 8, at(both, "usage", "prompt_tokens"))
	unlimited := postOK(t, demo(), "/v1/completions", `{"prompt":"Once upon a time","temperature":0}`)
	require.EqualValues(t, defaultCompletion, at(unlimited, "usage", "completion_tokens"))

	part := func(text, reason string) string {
		return `data: {"id":"cmpl-1","object":"text_completion","created":1795867200,"model":"demo","choices":[{"text":"` + text + `","index":0,"logprobs":null,"finish_reason":` + reason + "}]}\n\n"
	}
	require.Equal(t, part(",", "null")+part(" there", "null")+part(" was", "null")+part("", `"length"`)+"data: [DONE]\n\n",
		post(demo(), "/v1/completions", `{"prompt":"Once upon a time","stream":true,`+options+`}`).Body.String())
}

// TestModelsAreListed checks the listing and single models.
func TestModelsAreListed(t *testing.T) {
	s := emptyServer(t, func(o *Options) {
		o.Models = append(o.Models, Model{Name: "org/b", Path: "b", Modified: fixedTime})
		o.Models[0].Modified = fixedTime
	})
	one := `{"id":"org/b","object":"model","created":1795867200,"owned_by":"llmrun"}`
	require.JSONEq(t, `{"object":"list","data":[{"id":"none","object":"model","created":1795867200,"owned_by":"llmrun"},`+one+`]}`, ask(s, "GET", "/v1/models", nil).Body.String())
	require.JSONEq(t, one, ask(s, "GET", "/v1/models/org/b", nil).Body.String())
	require.Equal(t, http.StatusNotFound, ask(s, "GET", "/v1/models/c", nil).Code)
}

// TestOpenAIRefusals checks that a wrong request gets the API's error, which names the field.
func TestOpenAIRefusals(t *testing.T) {
	const chat = "/v1/chat/completions"
	for _, c := range []struct {
		path, body string
		status     int
		param      any
		message    string
	}{
		{chat, `{"messages":[]}`, 400, "messages", "at least one message"},
		{chat, `{}`, 400, "messages", "at least one message"},
		{chat, `{"messages":"Hi"}`, 400, "messages", "must be a list"},
		{chat, `{"messages":[{"role":"wizard","content":"Hi"}]}`, 400, "messages[0].role", "system, user or assistant"},
		{chat, `{"messages":[{"content":"Hi"}]}`, 400, "messages[0].role", "system, user or assistant"},
		{chat, `{"messages":[{"role":"user","content":1}]}`, 400, "messages[0].content", "must be a string"},
		{chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`, 400, "messages[0].content[0].type", "only text"},
		{chat, `{"messages":[{"role":"user","content":"x","tool_calls":[{}]}]}`, 400, "messages[0].tool_calls", "can only be an assistant's"},
		{chat, `{` + foxMessages + `,"tools":[{"type":"function"}]}`, 400, "tools[0].function.name", "must be the name of the tool"},
		{chat, `{` + foxMessages + `,"response_format":{"type":"xml"}}`, 400, "response_format.type", "text, json_object or json_schema"},
		{chat, `{` + foxMessages + `,"response_format":{"type":"json_schema"}}`, 400, "response_format.json_schema.schema", "is missing"},
		{chat, `{` + foxMessages + `,"response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{"a":{"not":{}}}}}}}`, 400, "response_format.json_schema.schema", "#/properties/a/not"},
		{chat, `{"messages":[{"role":"user"}]}`, 400, "messages[0].content", "is missing"},
		{chat, `{"messages":[{"role":"user","content":null}]}`, 400, "messages[0].content", "is missing"},
		{chat, `{` + foxMessages + `,"max_tokens":-1}`, 400, "max_tokens", "is -1"},
		{chat, `{` + foxMessages + `,"max_tokens":0}`, 400, "max_tokens", "is 0"},
		{chat, `{` + foxMessages + `,"temperature":"hot"}`, 400, "temperature", "must be a number"},
		{chat, `{` + foxMessages + `,"temperature":-1}`, 400, "temperature", "is -1"},
		{chat, `{` + foxMessages + `,"top_p":2}`, 400, "top_p", "is 2"},
		{chat, `{` + foxMessages + `,"top_k":-5}`, 400, "top_k", "is -5"},
		{chat, `{` + foxMessages + `,"n":0}`, 400, "n", "is 0"},
		{chat, `{` + foxMessages + `,"n":1000}`, 400, "n", "is 1000"},
		{chat, `{` + foxMessages + `,"seed":1.5}`, 400, "seed", "whole number"},
		{chat, `{` + foxMessages + `,"stop":[` + strings.Repeat(`"a",`, 100) + `"a"]}`, 400, "stop", "more than 64"},
		{chat, `{` + foxMessages + `,"stop":{}}`, 400, "stop", "list of strings"},
		{chat, `{` + foxMessages + `,"logit_bias":{"x":1}}`, 400, "logit_bias.x", "token id"},
		{chat, `{` + foxMessages + `,"logit_bias":{"1":1000}}`, 400, "logit_bias.1", "is 1000"},
		{chat, `{` + foxMessages + `,"logit_bias":{"999999":1}}`, 400, "logit_bias.999999", "not a token"},
		{chat, `{` + foxMessages + `,"top_logprobs":3}`, 400, "top_logprobs", "needs logprobs"},
		{chat, `{` + foxMessages + `,"logprobs":true,"top_logprobs":21}`, 400, "top_logprobs", "is 21"},
		{chat, `{` + foxMessages + `,"stream":"yes"}`, 400, "stream", "true or false"},
		{chat, `{` + foxMessages + `,"reasoning_effort":"extreme"}`, 400, "reasoning_effort", "must be none"},
		{chat, `{"model":"other",` + foxMessages + `}`, 404, "model", "no such model"},
		{chat, `{"model":"../../x",` + foxMessages + `}`, 400, "model", "not a path"},
		{chat, `{"model":7,` + foxMessages + `}`, 400, "model", "must be a string"},
		{chat, `{"a":1,"a":2}`, 400, nil, "twice"},
		{chat, `{"messages":[`, 400, nil, "ends too early"},
		{chat, `[]`, 400, nil, "JSON object"},
		{chat, `{"messages":[{"role":"user","content":"` + strings.Repeat("fox ", 40000) + `"}]}`, 400, nil, "context"},
		{"/v1/completions", `{}`, 400, "prompt", "is missing"},
		{"/v1/completions", `{"prompt":[]}`, 400, "prompt", "must be a text"},
		{"/v1/completions", `{"prompt":[[1],2]}`, 400, "prompt", "must be a text"},
		{"/v1/completions", `{"prompt":[1.5]}`, 400, "prompt", "must be a text"},
		{"/v1/completions", `{"prompt":[99999]}`, 400, nil, "99999"},
		{"/v1/completions", `{"prompt":"a","echo":true}`, 400, "echo", "not supported"},
		{"/v1/completions", `{"prompt":"a","n":4,"best_of":3}`, 400, "best_of", "must be at least n"},
		{"/v1/completions", `{"prompt":"a","best_of":3,"stream":true}`, 400, "best_of", "not possible with stream"},
		{"/v1/completions", `{"prompt":"a","suffix":"b"}`, 400, "suffix", "needs a model that fills gaps"},
		{"/v1/completions", `{"prompt":["a"],"suffix":"b"}`, 400, "prompt", "must be a string"},
		{"/v1/completions", `{"prompt":"a","suffix":1}`, 400, "suffix", "must be a string"},
		{"/v1/embeddings", `{"input":[]}`, 400, "input", "must be a text"},
		{"/v1/embeddings", `{"input":["a",[1]]}`, 400, "input", "must be a text"},
		{"/v1/embeddings", `{"input":"a","encoding_format":"x"}`, 400, "encoding_format", "float or base64"},
		{"/v1/embeddings", `{"input":"a","dimensions":100000}`, 400, nil, "between 1 and"},
		{"/v1/rerank", `{"query":"a"}`, 400, "documents", "is missing"},
		{"/v1/rerank", `{"query":"a","documents":[1]}`, 400, "documents", "must be a list"},
		{"/v1/rerank", `{"query":"a","documents":["b"]}`, 400, nil, "no head that scores"},
		{"/v1/nothing", `{}`, 404, nil, "no such endpoint"},
	} {
		w := post(demo(), c.path, c.body)
		name := shorten(c.body)
		require.Equal(t, c.status, w.Code, "%s: %s", name, w.Body)
		var answer map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), name)
		require.Equal(t, c.param, at(answer, "error", "param"), name)
		require.Contains(t, at(answer, "error", "message"), c.message, name)
		require.IsType(t, "", at(answer, "error", "type"), name)
		require.Contains(t, at(answer, "error"), "code", name)
	}
}
