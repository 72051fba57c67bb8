package papers

import (
	"github.com/llmrun/llmrun/lab/sim"
)

// phone is the chip that HeteroLLM measured.
const phone = "8-gen-3"

// runner runs models on one chip and keeps the first error.
type runner struct {
	lab *Lab
	soc string
	err error
}

func (r *runner) run(m Model, method Method, tokens int, slow bool) Result {
	past := 0
	if tokens == 1 {
		past = 256
	}
	result, err := r.lab.Do(Run{SoC: r.soc, Model: m, Method: method, Tokens: tokens, Past: past, Slow: slow})
	if err != nil && r.err == nil {
		r.err = err
	}
	return result
}

// seconds returns the time of a run.
func (r *runner) seconds(m Model, method Method, tokens int) float64 {
	return r.run(m, method, tokens, false).Time.Seconds()
}

// speed returns the tokens per second of a run.
func (r *runner) speed(m Model, method Method, tokens int) float64 {
	return float64(tokens) / r.seconds(m, method, tokens)
}

// faster returns the speedup of a method over another.
func (r *runner) faster(m Model, method, than Method, tokens int) float64 {
	return r.seconds(m, than, tokens) / r.seconds(m, method, tokens)
}

// sync returns the mean speedup of fast synchronization.
func (r *runner) sync(m Model, method Method, lengths ...int) float64 {
	sum := 0.0
	for _, n := range lengths {
		sum += r.run(m, method, n, true).Time.Seconds() / r.seconds(m, method, n)
	}
	return sum / float64(len(lengths))
}

// aligned are the lengths whose mean HeteroLLM gives.
var aligned = []int{64, 256, 1024}

// HeteroLLM repeats the measurements of HeteroLLM on a Snapdragon 8 Gen 3.
func (l *Lab) HeteroLLM() ([]Table, error) {
	r := &runner{lab: l, soc: phone}
	mean := 0.0
	for _, n := range aligned {
		mean += r.faster(Llama8B, Tensor, Layer, n) / float64(len(aligned))
	}
	prefill := Table{"HeteroLLM: prefill, aligned lengths", []Figure{
		{What: "8B, 256: layer-level over GPU only", Source: "§5.2.1", Paper: 2.99, Ours: r.faster(Llama8B, Layer, GPUOnly, 256), Fitted: true},
		{What: "8B, 256: tensor-level", Source: "§5.4", Paper: 236.92, Ours: r.speed(Llama8B, Tensor, 256), Unit: "tok/s", Fitted: true},
		{What: "8B, 256: tensor-level over layer-level", Source: "§5.6", Paper: 1.244, Ours: r.faster(Llama8B, Tensor, Layer, 256)},
		{What: "8B, mean of 64, 256, 1024: the same", Source: "§5.2.1", Paper: 1.302, Ours: mean},
		{What: "8B, 32: the same", Source: "§5.2.1", Paper: 1.408, Ours: r.faster(Llama8B, Tensor, Layer, 32)},
		{What: "1.8B, 256: tensor-level", Source: "§5.2.1", Paper: 1092, Ours: r.speed(InternLM2, Tensor, 256), Unit: "tok/s"},
		{What: "3B, mean: tensor-level over GPU only", Source: "§5.2.1", Paper: 3.51, Ours: (r.faster(Llama3B, Tensor, GPUOnly, 64) + r.faster(Llama3B, Tensor, GPUOnly, 256) + r.faster(Llama3B, Tensor, GPUOnly, 1024)) / 3},
	}}
	online := r.run(Llama8B, Online, 135, false)
	lengths := Table{"HeteroLLM: prefill of 525 tokens, Llama-8B", []Figure{
		{What: "tensor-level over online preparation", Source: "§5.2.2", Paper: 2.24, Ours: r.faster(Llama8B, Tensor, Online, 525), Fitted: true},
		{What: "tensor-level over padding", Source: "§5.2.2", Paper: 2.21, Ours: r.faster(Llama8B, Tensor, Padding, 525)},
		{What: "tensor-level over pipe", Source: "§5.2.2", Paper: 1.35, Ours: r.faster(Llama8B, Tensor, Pipe, 525)},
		{What: "135 tokens: preparing, of all", Source: "§5.2.2", Paper: 34.6, Ours: 100 * online.Prepare.Seconds() / online.Time.Seconds(), Unit: "%"},
	}}
	decode := Table{"HeteroLLM: decoding after 256 tokens", []Figure{
		{What: "8B: tensor-level over GPU only", Source: "§5.3", Paper: 1.234, Ours: r.faster(Llama8B, Tensor, GPUOnly, 1), Fitted: true},
		{What: "3B: the same", Source: "§5.3", Paper: 1.0852, Ours: r.faster(Llama3B, Tensor, GPUOnly, 1)},
		{What: "1.8B: the same", Source: "§5.3", Paper: 1.1338, Ours: r.faster(InternLM2, Tensor, GPUOnly, 1)},
		{What: "8B: tensor-level", Source: "§5.3", Paper: 14.01, Ours: r.speed(Llama8B, Tensor, 1), Unit: "tok/s"},
		{What: "3B: tensor-level", Source: "§5.3", Paper: 29.9, Ours: r.speed(Llama3B, Tensor, 1), Unit: "tok/s"},
		{What: "1.8B: tensor-level", Source: "§5.3", Paper: 51.12, Ours: r.speed(InternLM2, Tensor, 1), Unit: "tok/s"},
	}}
	sync := Table{"HeteroLLM: fast synchronization over none", []Figure{
		{What: "8B, decoding, tensor-level", Source: "§5.4", Paper: 4.01, Ours: r.sync(Llama8B, Tensor, 1), Fitted: true},
		{What: "3B, decoding, tensor-level", Source: "§5.4", Paper: 2.2, Ours: r.sync(Llama3B, Tensor, 1)},
		{What: "1.8B, decoding, tensor-level", Source: "§5.4", Paper: 2.2, Ours: r.sync(InternLM2, Tensor, 1)},
		{What: "8B, 256, tensor-level", Source: "§5.4", Paper: 236.92 / 196.44, Ours: r.sync(Llama8B, Tensor, 256)},
		{What: "8B, mean of 64, 256, 1024, tensor-level", Source: "§5.4", Paper: 1.243, Ours: r.sync(Llama8B, Tensor, aligned...)},
		{What: "8B, mean, layer-level", Source: "§5.4", Paper: 1.158, Ours: r.sync(Llama8B, Layer, aligned...)},
		{What: "7B, mean, tensor-level", Source: "§5.4", Paper: 1.49, Ours: r.sync(Llama7B, Tensor, aligned...)},
		{What: "7B, mean, layer-level", Source: "§5.4", Paper: 1.317, Ours: r.sync(Llama7B, Layer, aligned...)},
		{What: "1.8B, mean, tensor-level", Source: "§5.4", Paper: 1.345, Ours: r.sync(InternLM2, Tensor, aligned...)},
		{What: "1.8B, mean, layer-level", Source: "§5.4", Paper: 1.267, Ours: r.sync(InternLM2, Layer, aligned...)},
	}}
	return []Table{prefill, lengths, decode, sync}, r.err
}

// Curve holds the prefill latencies of a method, in seconds.
type Curve struct {
	Method  Method    `json:"method"`
	Lengths []int     `json:"lengths"`
	Seconds []float64 `json:"seconds"`
}

// Lengths computes HeteroLLM's figure 14: Llama-8B at lengths without a graph of their own.
func (l *Lab) Lengths() ([]Curve, error) {
	r := &runner{lab: l, soc: phone}
	var curves []Curve
	for _, method := range []Method{Online, Padding, Pipe, Tensor} {
		c := Curve{Method: method}
		for _, n := range []int{40, 80, 135, 200, 256, 300, 400, 525, 600, 700, 800, 900, 1000} {
			c.Lengths = append(c.Lengths, n)
			c.Seconds = append(c.Seconds, r.seconds(Llama8B, method, n))
		}
		curves = append(curves, c)
	}
	return curves, r.err
}

// ChipSpeeds are the speeds of Llama-8B on a chip, in tokens per second.
type ChipSpeeds struct {
	SoC string `json:"soc"`
	// Prefill and Decode: GPU alone, layer-level, tensor-level.
	Prefill [3]float64 `json:"prefill"`
	Decode  [3]float64 `json:"decode"`
	// HalfGPU is tensor-level prefill when a split may keep the GPU busy for half of the time.
	HalfGPU float64 `json:"shared"`
}

// Chips runs Llama-8B on every chip: prefill of 256 and decoding.
func (l *Lab) Chips() (list []ChipSpeeds, err error) {
	for _, soc := range sim.SoCs() {
		r := &runner{lab: l, soc: soc}
		c := ChipSpeeds{SoC: soc}
		for i, method := range []Method{GPUOnly, Layer, Tensor} {
			c.Prefill[i] = r.speed(Llama8B, method, 256)
			c.Decode[i] = r.speed(Llama8B, method, 1)
		}
		limited, err := l.Do(Run{SoC: soc, Model: Llama8B, Method: Tensor, Tokens: 256, Quota: 0.5})
		if err != nil {
			return nil, err
		}
		if r.err != nil {
			return nil, r.err
		}
		c.HalfGPU = 256 / limited.Time.Seconds()
		list = append(list, c)
	}
	return list, nil
}

// Prediction compares predicted with measured times.
type Prediction struct {
	Model string `json:"model"`
	// GPU and NPU are the mean relative errors over the pieces of all cuts, GPUMax and NPUMax the
	// largest.
	GPU    float64 `json:"gpu"`
	NPU    float64 `json:"npu"`
	GPUMax float64 `json:"gpu_max"`
	NPUMax float64 `json:"npu_max"`
	// Measured and Predicted are tensor-level prefill times of 525 tokens, in seconds, with splits
	// planned from measured and from predicted times.
	Measured  float64 `json:"measured"`
	Predicted float64 `json:"predicted"`
	// Planned is the solver's expected time of the matmuls of Measured over their actual time.
	Planned float64 `json:"planned"`
}

// Predictions compares the two modes of the profiler.
func (l *Lab) Predictions() (list []Prediction, err error) {
	for _, m := range []Model{Llama8B, Llama3B, InternLM2} {
		run := Run{SoC: phone, Model: m, Method: Tensor, Tokens: 525}
		measured, err := l.Do(run)
		if err != nil {
			return nil, err
		}
		run.Predict = true
		predicted, err := l.Do(run)
		if err != nil {
			return nil, err
		}
		p := Prediction{
			Model: m.Name, Measured: measured.Time.Seconds(), Predicted: predicted.Time.Seconds(),
			Planned: measured.Predicted.Seconds() / measured.Matmuls.Seconds(),
		}
		if err := l.predictionErrors(m, &p); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}
