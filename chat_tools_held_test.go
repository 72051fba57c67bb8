package llmrun

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRequestsShareTheCallsOfTheirTools holds required calls several times: the same tools give the same calls, by which answers find their
// matcher, until others have taken their place. Other parameters, and tools that must be strict, are other tools.
func TestRequestsShareTheCallsOfTheirTools(t *testing.T) {
	c := formatOf(t, `{% for m in messages %}{{ m.content }}{% endfor %}`)
	hold := func(tools ...Tool) (*requiredCalls, error) {
		o := ChatOptions{Tools: tools, ToolChoice: ToolsRequired}
		err := c.holdCalls(&o)
		return o.held, err
	}
	first, err := hold(weather)
	require.NoError(t, err)
	require.NotNil(t, first)
	again, err := hold(weather)
	require.NoError(t, err)
	require.Same(t, first, again)

	other := weather
	other.Parameters = []byte(`{"type":"object","properties":{"city":{"not":{}}}}`)
	none, err := hold(other)
	require.NoError(t, err)
	require.Nil(t, none, "a schema that is not supported")
	none, err = hold(weather, other)
	require.NoError(t, err)
	require.Nil(t, none)
	strict := weather
	strict.Strict = true
	_, err = hold(strict, other)
	require.ErrorIs(t, err, ErrConstraint, "calls are held to all schemas, or to none")
	require.ErrorContains(t, err, "city/not")

	for i := range keptTools {
		_, err := hold(Tool{Name: fmt.Sprint("tool", i)})
		require.NoError(t, err)
	}
	again, err = hold(weather)
	require.NoError(t, err)
	require.NotSame(t, first, again)
	require.Len(t, c.held.last, keptTools)
}
