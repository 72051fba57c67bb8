// Package hub finds models by name: it downloads them, and lists those that this and other programs have stored on the
// machine.
//
//   - A [Reference] names a model on a server: hf:OWNER/REPO:QUANT, ollama:NAME:TAG, or a URL.
//   - [Client.Find] asks the server which files a reference means, and with which sizes and hashes: a [Remote].
//     [Client.Open] reads parts of them, so that a model can be planned before it is downloaded.
//   - [Store.Pull] downloads a Remote. It goes on where an earlier call stopped, also after a kill or a power cut, and
//     ends with files whose hashes were checked.
//   - [Places.Models] lists what was pulled, and what ollama, LM Studio and the Hugging Face cache hold; [Places.Find]
//     finds one of them by its name. Models of other programs are opened where they are, and never changed.
//
// What a server says is not trusted: names stay below the directory of the models, lengths and ranges are compared
// with those that were published, a redirect to another host gets no token, and one from https to http is refused.
package hub
