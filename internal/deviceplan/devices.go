package deviceplan

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/hetero/devices"
)

// DeviceList lists the devices of this machine that can compute matmuls.
type DeviceList struct {
	Devices []DeviceInfo    `json:"devices"`
	Missing []MissingDriver `json:"missing"`
}

// DeviceInfo describes a device.
type DeviceInfo struct {
	Name        string `json:"name"` // for --devices
	Kind        string `json:"kind"`
	Driver      string `json:"driver"`
	Description string `json:"description"`
	Shares      bool   `json:"shares_memory"` // uses the machine's memory, without copies
	Static      bool   `json:"static"`        // accepts only the numbers of tokens that it was prepared for
	Memory      int64  `json:"memory_bytes"`  // addressable memory; 0 = all
	Simulated   bool   `json:"simulated"`
}

// MissingDriver is a driver without devices, or with devices that cannot be used, and the reason.
type MissingDriver struct {
	Driver string `json:"driver"`
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

// Devices finds the devices of this machine.
func Devices() *DeviceList {
	list := &DeviceList{Devices: []DeviceInfo{}, Missing: []MissingDriver{}}
	for _, l := range devices.All.List() {
		for _, f := range l.Found {
			c := f.Capabilities
			list.Devices = append(list.Devices, DeviceInfo{
				Name: f.Name, Kind: c.Kind.String(), Driver: l.Provider, Description: c.Name,
				Shares: c.SharesMemory, Static: c.Static, Memory: c.Memory, Simulated: c.Simulated,
			})
		}
		if l.Missing != nil {
			list.Missing = append(list.Missing, MissingDriver{l.Provider, l.Kind.String(), l.Missing.Error()})
		}
	}
	return list
}

// Names returns the names of all devices.
func (l *DeviceList) Names() (names []string) {
	for _, d := range l.Devices {
		names = append(names, d.Name)
	}
	return names
}

// WriteTable writes the list as a table.
func (l *DeviceList) WriteTable(w io.Writer) {
	width := 12
	for _, name := range l.Names() {
		width = max(width, len(name))
	}
	for _, d := range l.Devices {
		fmt.Fprintf(w, "%-*s %-4s %s; %s\n", width, d.Name, d.Kind, d.Description, d.traits())
	}
	for _, m := range l.Missing {
		how := "none"
		if slices.ContainsFunc(l.Devices, func(d DeviceInfo) bool { return d.Driver == m.Driver }) {
			how = "not all"
		}
		fmt.Fprintf(w, "%-*s %-4s %s: %s\n", width, m.Driver, m.Kind, how, strings.ReplaceAll(m.Reason, "\n", "; "))
	}
}

// traits describes the properties of a device that plans depend on.
func (d *DeviceInfo) traits() string {
	text := "copies to its own memory"
	if d.Shares {
		text = "shares memory"
	}
	if d.Static {
		text += ", accepts only prepared numbers of tokens"
	}
	if d.Memory > 0 {
		text += fmt.Sprintf(", addresses %.1f GiB", float64(d.Memory)/(1<<30))
	}
	return text
}

// DefaultDevices returns the devices of a plan without --devices: the first device of a driver
// and the processor, or the processor's two groups of cores, or the processor.
func DefaultDevices() []string {
	list := Devices()
	for _, d := range list.Devices {
		if d.Driver != "cpu" && !d.Static {
			return []string{d.Name, "cpu"}
		}
	}
	if pair := Groups(list); len(pair) == 2 {
		return pair
	}
	return []string{"cpu"}
}

// Groups returns the processor's two groups of cores, or nil if it has one core.
func Groups(l *DeviceList) (pair []string) {
	for _, d := range l.Devices {
		if d.Driver == "cpu" && d.Name != "cpu" {
			pair = append(pair, d.Name)
		}
	}
	return pair
}
