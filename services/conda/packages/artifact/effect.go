package artifact

import (
	"regexp"
	"strings"
)

// Effect is the effect of a link script on Linux.
type Effect string

// Effects of scripts. A script with an unknown effect must run.
const (
	MustRun Effect = "must run"
	// Message scripts print a message and do nothing else.
	Message Effect = "message"
	// Nothing is the effect of scripts for other systems, or for hardware that images do
	// not have.
	Nothing Effect = "nothing"
)

// Effect returns the script's effect, identified by its content. When a package changes its
// script, the new content is unknown.
func (s Script) Effect() Effect {
	switch s.SHA256() {
	case "5a1f383fe139be38d84f95ad0259e7497129dc75b2565964e624d6123eafe5a0", // git: signs a program on macOS
		"bb171c2bf0617c33065be14eb236ff8f2f52b4b4e16c43d4999046123737f3fa", // emacs: its image, on macOS
		"7d4e0a20d471dd974bd46ee50e859d131ca731ce6c0af2b8aaf18485b0f7583a", // libusb: a link to the libudev of systems before 2013
		"ae7c1814c10f01432efd75f84d8d9b060dca98c5716f7b90c98565202276729e": // ocl-icd: links to the drivers of the machine
		return Nothing
	case "d6afd1ed1db3c9485e00fc590cbb114c863d8dafa493a97de6c211175ed0c9a8", // openmpi: how to enable CUDA
		"4605bbe9bccb875db034ddd0eb5fb765dc0290b797082c08e732de5396e7fbc1", // cudatoolkit: its licence
		"1fed353cac95ed020551652ff444128292bb35be121ef26bdbb8bb9a487fac9f", // cudnn: its licence
		"95d5656da5de7dfeddc0d42a5317888625a46664906955aee025cffb1b16f0a1", // cuquantum: its licence
		"f423e702044427beb2817fd5ba9006ee4f5641881b29968cfc25b281b7396568", // rtl-sdr: rules for udev
		"b90ff8e62444ca7aac3ece8e1ca80be1685dae6390fcacad0473fc188f838140": // hackrf: rules for udev
		return Message
	}
	return MustRun
}

// echoed matches the text that `echo` and `printf "%s\n"` print.
var echoed = regexp.MustCompile(`(?m)^\s*(?:echo|printf "%s\\n") "([^"]*)"`)

// MessageText returns the message of a script with the effect Message.
func (s Script) MessageText(prefix, pkg string) string {
	var lines []string
	for _, m := range echoed.FindAllStringSubmatch(s.Text, -1) {
		if line := strings.TrimRight(m[1], " "); line != "" {
			lines = append(lines, line)
		}
	}
	known := strings.NewReplacer("${PREFIX}", prefix, "$PREFIX", prefix, "${PKG_NAME}", pkg, "$PKG_NAME", pkg)
	return known.Replace(strings.Join(lines, "\n"))
}
