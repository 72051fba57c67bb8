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
	schemas := func(tools ...Tool) (all []string) {
		held, err := hold(tools...)
		require.NoError(t, err)
		for _, call := range held.calls {
			all = append(all, string(call.Schema))
		}
		return all
	}
	require.Equal(t, []string{anyArguments}, schemas(other), "a schema that is not supported")
	require.Equal(t, []string{string(weather.Parameters), anyArguments}, schemas(weather, other))
	strict := weather
	strict.Strict = true
	require.Equal(t, []string{string(weather.Parameters), anyArguments}, schemas(strict, other))
	strict.Parameters = other.Parameters
	_, err = hold(weather, strict)
	require.ErrorIs(t, err, ErrConstraint)
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
