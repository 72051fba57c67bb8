package serve

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// TestFormats asks for JSON in each dialect. The answers are valid in the schema, and end within few tokens.
func TestFormats(t *testing.T) {
	const schema = `{"type":"object","properties":{"name":{"type":"string"},"legs":{"type":"integer","minimum":1,"maximum":9}},"required":["name","legs"],"additionalProperties":false}`
	const user = `"messages":[{"role":"user","content":"Describe a fox."}]`
	validator, err := testutil.NewJSONSchema([]byte(schema))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		path, body string
		answer     []any
		any        bool // object
	}{
		"chat":      {"/v1/chat/completions", `{` + user + `,"max_tokens":40,"response_format":{"type":"json_schema","json_schema":{"name":"fox","strict":true,"schema":` + schema + `}}}`, []any{"choices", 0, "message", "content"}, false},
		"object":    {"/v1/chat/completions", `{` + user + `,"max_tokens":40,"response_format":{"type":"json_object"}}`, []any{"choices", 0, "message", "content"}, true},
		"responses": {"/v1/responses", `{"input":"Describe a fox.","max_output_tokens":40,"text":{"format":{"type":"json_schema","name":"fox","strict":true,"schema":` + schema + `}}}`, []any{"output", 0, "content", 0, "text"}, false},
		"ollama":    {"/api/chat", `{` + user + `,"stream":false,"options":{"num_predict":40},"format":` + schema + `}`, []any{"message", "content"}, false},
		"generate":  {"/api/generate", `{"prompt":"Describe a fox.","stream":false,"options":{"num_predict":40},"format":"json"}`, []any{"response"}, true},
	} {
		got, _ := at(postOK(t, demo(), c.path, c.body), c.answer...).(string)
		if c.any {
			var object map[string]any
			require.NoError(t, json.Unmarshal([]byte(got), &object), "%s: %s", name, got)
			continue
		}
		require.NoError(t, validator.Validate(got), "%s: %s", name, got)
	}
	w := post(demo(), "/v1/chat/completions", `{`+user+`,"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"array","uniqueItems":true}}}}`)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "#/uniqueItems")
	require.Contains(t, w.Body.String(), `"param":"response_format.json_schema.schema"`)
	w = post(demo(), "/api/chat", `{`+user+`,"format":{"type":"array","uniqueItems":true}}`)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), `{"error":"format is refused: `)
}
