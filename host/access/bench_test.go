package access

import "testing"

// BenchmarkExchange is what an authentication costs the server: SCRAM leaves the hashing to the client, PLAIN does not.
func BenchmarkExchange(b *testing.B) {
	lines, err := Verifiers("user", "pencil")
	if err != nil {
		b.Fatal(err)
	}
	u := mustUsers(b, lines)
	for _, m := range Mechanisms {
		b.Run(m, func(b *testing.B) {
			for b.Loop() {
				e := begin(m, u, func() string { return rfcNonce })
				if m == Plain {
					if _, err := e.Step([]byte("\x00user\x00pencil")); err != nil {
						b.Fatal(err)
					}
					continue
				}
				if _, err := e.Step([]byte(rfcFirst)); err != nil {
					b.Fatal(err)
				}
				if _, err := e.Step([]byte(rfcThird)); err == nil { // a proof of another salt: as much work as the right one
					b.Fatal("let in")
				}
			}
		})
	}
}

// BenchmarkAllow is a decision among a thousand rules of one principal.
func BenchmarkAllow(b *testing.B) {
	text := []byte("* describe topic:public\n")
	for range 1000 {
		text = append(text, "User:a read topic:orders-* topic:x group:y\n"...)
	}
	r, err := ParseRules(text)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if r.Allow("User:a", Read, Topic, "nothing") {
			b.Fatal("allowed")
		}
	}
}
