package llmrun

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/kv/segment"
)

// TestSavedMessagesKeepCalls saves messages with thoughts, calls and results. Others need no details, so that older programs read them.
func TestSavedMessagesKeepCalls(t *testing.T) {
	plain := []Message{{Role: "user", Content: "a"}, {Role: "assistant", Content: "b"}}
	m := &segment.Manifest{}
	saveMessages(m, plain)
	require.Nil(t, m.Details)
	again, err := savedMessages(m)
	require.NoError(t, err)
	require.Equal(t, plain, again)

	calls := append(plain, Message{Role: "assistant", Thinking: "hm", ToolCalls: weatherCalls}, Message{Role: "tool", Content: "sunny", ToolCallID: "abcdefghi", Name: "weather"})
	m = &segment.Manifest{}
	saveMessages(m, calls)
	again, err = savedMessages(m)
	require.NoError(t, err)
	require.Equal(t, calls, again)

	m.Details[2] = "{"
	_, err = savedMessages(m)
	require.ErrorIs(t, err, ErrFormat)
	require.ErrorContains(t, err, "message 2")
}
