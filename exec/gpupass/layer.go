package gpupass

import (
	"errors"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/hetero/opencl"
)

// layer holds the weights and kernels of a layer.
type layer struct {
	attnGain, ffnGain int           // elements of single.memory
	qGain, kGain      int           // attnGain if heads have no norm
	qkv               []columnBlock // queries, keys and values
	o, down           *opencl.WeightMatrix
	gateUp            []columnBlock // one interleaved block, or gates and then ups

	single singleLayer
	batch  batchLayer
}

// columnBlock is a weight matrix that computes some columns of a step's result.
type columnBlock struct {
	weights *opencl.WeightMatrix
	column  int // first column
}

// UploadLayer uploads a layer's weights.
func (n *Network) UploadLayer(l int, w *exec.LayerWeights) error {
	l -= n.first
	y := &n.layers[l]
	if err := n.uploadGains(y, w); err != nil {
		return err
	}
	if err := n.uploadMatrices(y, w); err != nil {
		return err
	}
	if l == len(n.layers)-1 {
		n.lastOps += opsOf(y.o) + opsOf(y.down)
		for _, p := range y.gateUp {
			n.lastOps += opsOf(p.weights)
		}
	}
	return n.countLoaded()
}

// uploadGains uploads the norms of a layer.
func (n *Network) uploadGains(y *layer, w *exec.LayerWeights) (err error) {
	if y.attnGain, err = n.gain(w.AttnNorm); err != nil {
		return err
	}
	if y.ffnGain, err = n.gain(w.FFNNorm); err != nil {
		return err
	}
	y.qGain, y.kGain = y.attnGain, y.attnGain
	if n.spec.QKNorm != arch.QKNormHead {
		return nil
	}
	if y.qGain, err = n.gain(w.QNorm); err != nil {
		return err
	}
	y.kGain, err = n.gain(w.KNorm)
	return err
}

// uploadMatrices uploads the matrices of a layer.
func (n *Network) uploadMatrices(y *layer, w *exec.LayerWeights) (err error) {
	if y.qkv, err = n.stack("qkv", &w.Q, &w.K, &w.V); err != nil {
		return err
	}
	if y.o, err = n.newMatrix("o", false, &w.O); err != nil {
		return err
	}
	if opencl.CanStack(weightsOf(&w.Gate), weightsOf(&w.Up)) {
		p, err := n.newMatrix("gate_up", true, &w.Gate, &w.Up)
		if err != nil {
			return err
		}
		y.gateUp = []columnBlock{{p, 0}}
	} else if y.gateUp, err = n.stack("gate_up", &w.Gate, &w.Up); err != nil {
		return err
	}
	y.down, err = n.newMatrix("down", false, &w.Down)
	return err
}

// UploadOutput uploads the output matrix.
func (n *Network) UploadOutput(norm []float32, head exec.Linear) error {
	gain, err := n.gain(norm)
	if err != nil {
		return err
	}
	p, err := n.newMatrix("head", false, &head)
	if err != nil {
		return err
	}
	n.lastOps += opsOf(p)
	n.endGain, n.endMatrix = gain, p
	return n.countLoaded()
}

// countLoaded counts uploads. After the last one it gathers the weights and creates
// the kernels for one token, which need the weights' final addresses.
func (n *Network) countLoaded() error {
	if n.loaded++; n.loaded < len(n.layers)+1 {
		return nil
	}
	if err := n.gather(); err != nil {
		return err
	}
	for l := range n.layers {
		if err := n.makeSingleLayer(l); err != nil {
			return err
		}
	}
	var err error
	n.head, err = n.newGEMV(n.endMatrix, n.normedStream(n.endGain), opencl.Output{Y: n.single.memory, To: n.single.logits})
	return err
}

func weightsOf(l *exec.Linear) opencl.Weights {
	return opencl.Weights{Type: l.Type, Rows: l.Rows, Cols: l.Cols, Data: l.Data, Bias: l.Bias}
}

func allWeights(matrices []*exec.Linear) []opencl.Weights {
	list := make([]opencl.Weights, len(matrices))
	for i, m := range matrices {
		list[i] = weightsOf(m)
	}
	return list
}

// newMatrix uploads matrices as one.
func (n *Network) newMatrix(name string, interleave bool, matrices ...*exec.Linear) (*opencl.WeightMatrix, error) {
	p, err := n.context.NewWeightMatrix(interleave, allWeights(matrices)...)
	if err != nil {
		return nil, err
	}
	n.own(p)
	n.matrices = append(n.matrices, p)
	p.Name = name
	p.Specialized = n.context.Info.Kind == "GPU" // others gain nothing
	n.weights += p.Bytes()
	n.ops += opsOf(p)
	return p, nil
}

// opsOf returns the multiplications and additions of a matrix with one token.
func opsOf(p *opencl.WeightMatrix) int64 { return 2 * int64(p.Rows) * int64(p.Cols) }

// stack uploads matrices whose results are adjacent; neighbours of one format
// become one matrix.
func (n *Network) stack(name string, matrices ...*exec.Linear) (parts []columnBlock, err error) {
	to := 0
	for _, s := range stackable(matrices...) {
		p, err := n.newMatrix(name, false, s...)
		if err != nil {
			return nil, err
		}
		parts = append(parts, columnBlock{p, to})
		to += p.Rows
	}
	return parts, nil
}

// stackable groups neighbouring matrices of one format.
func stackable(matrices ...*exec.Linear) (list [][]*exec.Linear) {
	for len(matrices) > 0 {
		count := 1
		for count < len(matrices) && opencl.CanStack(weightsOf(matrices[0]), weightsOf(matrices[count])) {
			count++
		}
		list = append(list, matrices[:count])
		matrices = matrices[count:]
	}
	return list
}

// kernel creates a kernel of a layer that lives as long as the network.
func (n *Network) kernel(l int, file, name string, args ...any) (*opencl.Kernel, error) {
	k, err := n.context.Kernel(file, n.layerOptions(&n.spec.Layers[l]), name)
	if err != nil {
		return nil, err
	}
	n.own(k)
	return k, k.Set(args...)
}

// launchAll launches GEMVs in order.
func launchAll(list []*opencl.GEMV) error {
	for _, v := range list {
		if err := v.Launch(); err != nil {
			return err
		}
	}
	return nil
}

var errChunkTooLarge = errors.New("gpu: the chunk is larger than the network was opened for")
