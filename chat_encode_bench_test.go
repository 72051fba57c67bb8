package llmrun

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkEncodeConversation renders and encodes a conversation of many turns, as every turn of a
// chat does, and reports how long a token of it takes.
func BenchmarkEncodeConversation(b *testing.B) {
	e, err := Open("cmd/llmrun/bundled/model", Options{Threads: 2})
	require.NoError(b, err)
	defer e.Close()
	for _, turns := range []int{2, 16, 64} {
		var messages []Message
		for i := range turns {
			messages = append(messages,
				Message{Role: "user", Content: fmt.Sprintf("Tell me story %d about a brave fox named Ruby, please.", i)},
				Message{Role: "assistant", Content: strings.Repeat("Once upon a time a fox walked through the quiet forest. ", 6)})
		}
		messages = append(messages, Message{Role: "user", Content: "And then?"})
		b.Run(fmt.Sprintf("%d turns", turns), func(b *testing.B) {
			n := 0
			for range b.N {
				ids, err := e.EncodeChat(messages, ChatOptions{})
				require.NoError(b, err)
				n = len(ids)
			}
			b.ReportMetric(float64(n), "tokens")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/token")
		})
	}
}
