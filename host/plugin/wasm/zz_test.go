package wasm
import ("testing";"time";"io")
func TestZZ(t *testing.T){
	p := ready(t, Options{Name: "mine", Instances: 1, MemoryCap: 32 << 20}, nil)
	for _, x := range []string{"panic","exit","bomb","recurse","calls"} {
		s:=time.Now(); _,err:=ask(t.Context(),p,x); t.Log(x,time.Since(s),err)
		s=time.Now(); inline(t,p,"calls"); t.Log("calls",time.Since(s))
	}
	for range 3 {
	s:=time.Now()
	src,err:=ask(t.Context(),p,"stream"); if err!=nil {t.Fatal(err)}
	io.Copy(io.Discard,src.Stream)
	src.Close()
	t.Log("stream",time.Since(s))
	}
}
