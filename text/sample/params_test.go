package sample

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInvalidParams(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for field, bad := range map[string][]Params{
		"temperature":       {{Temperature: nan}, {Temperature: -0.1}, {Temperature: inf}},
		"top_k":             {{TopK: -5}},
		"top_p":             {{TopP: 2}, {TopP: -0.1}, {TopP: nan}},
		"min_p":             {{MinP: 1.01}, {MinP: -1}, {MinP: nan}},
		"typical_p":         {{TypicalP: 7}, {TypicalP: nan}},
		"repeat_penalty":    {{RepeatPenalty: -1}, {RepeatPenalty: nan}, {RepeatPenalty: inf}},
		"presence_penalty":  {{PresencePenalty: nan}, {PresencePenalty: -inf}},
		"frequency_penalty": {{FrequencyPenalty: nan}, {FrequencyPenalty: inf}},
		"repeat_last_n":     {{RepeatLastN: -2}},
		"logit_bias": {
			{LogitBias: map[int32]float32{1: nan}},
			{LogitBias: map[int32]float32{1: inf}},
			{LogitBias: map[int32]float32{-1: 1}},
			{LogitBias: map[int32]float32{10: 1}},
		},
	} {
		for i, p := range bad {
			_, err := New(p, 10)
			require.ErrorIs(t, err, ErrParams, "%s %d", field, i)
			var refused *ParamError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, field, refused.Field)
			require.Contains(t, err.Error(), "invalid sampling parameter: "+field+" ")
		}
	}
}

func TestValidParams(t *testing.T) {
	for _, p := range []Params{
		{},
		{
			Temperature: 1e-40, TopK: math.MaxInt, TopP: 1, MinP: 1, TypicalP: 1, RepeatPenalty: math.MaxFloat32,
			PresencePenalty: -math.MaxFloat32, FrequencyPenalty: math.MaxFloat32, RepeatLastN: -1,
			LogitBias: map[int32]float32{9: minusInf, 0: math.MaxFloat32},
		},
	} {
		s := newSampler(t, p, 10)
		for range 3 {
			id, err := s.Sample(randomLogits(1, 10))
			require.NoError(t, err)
			s.Accept(id)
		}
	}
}
