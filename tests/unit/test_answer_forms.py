"""Forms in which models write an answer, right and wrong, as tables: V is the value, ⏎ a new line, ¦ between two forms."""

# ruff: noqa: RUF001  what looks alike is what is tested

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.scoring.answers import match_of
from pytest_benchjobs.scoring.replies import Wrong

pytestmark = pytest.mark.when_changed

_SIGNS = str.maketrans({"⏎": "\n", "◦": "\u200b", "◇": "\u00a0", "⇥": "\t"})
_INTEGER = {"match": "integer", "least": 0, "most": 999}

BEHIND_ANSWER = r"""
V (mod 1000) ¦ V \pmod{1000} ¦ N ≡ V (mod 1000) ¦ $N \equiv V \pmod{1000}$ ¦ N = 1000q + r ≡ V (mod 1000), since r < 1000
20 + 5 = **V** ¦ $\frac{50}{2} = V$ ¦ $\lfloor 25.7 \rfloor = V$ ¦ $N = 1000 - 975 = V$ ¦ $P = 2(a+b) = V$
$x = 2y = V$ ¦ -> V ¦ $\Rightarrow V$ ¦ ∴ V ¦ ((V)) ¦ \colorbox{yellow}{V} ¦ \fcolorbox{red}{white}{V}
$V\,^{\circ}$ ¦ V square units ¦ V, which is an integer. ¦ V is correct.
V ¦ V. ¦ the answer is V ¦ The answer is V. ¦ The final answer is $V$. ¦ m + n = V ¦ m+n=V ¦ $m+n = V$
m + n = V where m = 25 ¦ m + n = V, where m = 25 and n = 3. ¦ $m + n = 20 + 5 = V$ ¦ V (m = 25, n = 3)
V (since m = 25) ¦ V because m = 25. ¦ V, since m = 25 and n = 3 ¦ V where m = 25 ¦ V = 2^2 \cdot 3 ¦ x = V
N = V ¦ $p + q + r = V$ ¦ 10m + n = V ¦ |S| = V ¦ f(3) = V ¦ a_{10} = V ¦ \angle ABC = V^\circ ¦ The sum is V.
the remainder = V ¦ $V$ ¦ $$V$$ ¦ $ V $ ¦ \(V\) ¦ \[V\] ¦ `V` ¦ ```V``` ¦ "V" ¦ 'V' ¦ “V” ¦ <V> ¦ [V] ¦ (V)
{V} ¦ \text{V} ¦ \textbf{V} ¦ $\mathrm{V}$ ¦ $\mathbf{V}$ ¦ {\bf V} ¦ \boxed{V} ¦ $\boxed{V}$ ¦ **\boxed{V}**
$\boxed{\text{V}}$ ¦ \boxed{\mathbf{V}} ¦ $\displaystyle V$ ¦ ~V ¦ \,V ¦ +V ¦ 0V ¦ V.0 ¦ V.00
V. This is the sum. ¦ V — This is the sum. ¦ V ✅ ¦ V \blacksquare ¦ V<|im_end|> ¦ V</s> ¦ <b>V</b>
<strong>V</strong> ¦ V\\ ¦ V degrees ¦ V° ¦ $V^\circ$ ¦ $V^{\circ}$ ¦ ◦V ¦ V◦ ¦ **V**. ¦ **V** (since m = 25)
_V_ ¦ ==V== ¦ **$V$** ¦ $\boxed{V}$. ¦ V ¦ V; ¦ V, ¦ 00V ¦ The answer is $\mathbf{V}$.
The answer is m + n = V. ¦ So the answer is V. ¦ Therefore, V. ¦ $m+n = V$ (where $m=25$)
$m+n = V$, where $m=25$ and $n=3$. ¦ m+n = 20+5 = V. ¦ m + n = **V** ¦ Total = V ¦ V (final answer) ¦ "V".
''V'' ¦ <code>V</code> ¦ <span style="color:red">V</span> ¦ $\color{blue}{V}$ ¦ $\underline{\underline{V}}$
$\Large V$ ¦ $\huge{V}$ ¦ 🎉 V 🎉 ¦ ➡ V ¦ n=V ¦ $N=V$ ¦ $\frac{50}{2} \cdot 1 = V$ ¦ $100a + 10b + c = V$
$a + b + c = V$ ¦ $a+b+c+d=V$ ¦ $m + n = V.$ ¦ $\alpha + \beta = V$ ¦ $x_1 + x_2 = V$ ¦ $xyz = V$ ¦ $abc=V$
$P(3) = V$ ¦ $AB = V$ ¦ $[ABC] = V$ ¦ $\text{Area} = V$ ¦ Area = V ¦ $\left(V\right)$ ¦ V
"""
REPLIES = r"""
\boxed{V \pmod{1000}} ¦ {"answer": "\text{V}"} ¦ {"answer": V⏎} ¦ {"answer": "V", "confidence": 1}
$\boxed{20} + 5 = \boxed{V}$ ¦ The answer is $\boxed{V}$ .
The answer is V (the total time). ¦ The answer is V, so we are done. ¦ Adding: 20 + 5 = \boxed{V}.
\[ t = \boxed{V} \quad \text{minutes} \] ¦ \[ \boxed{V} \tag{1} \] ¦ The answer is **V** — the total time in minutes.
The answer is⏎⏎$$⏎V⏎$$ ¦ {"final_answer": V} ¦ {"answer":V,"explanation":"x"} ¦ <ans>V</ans> ¦ [ANSWER]V[/ANSWER]
\answer{V} ¦ <answer>V ¦ Ans: V ¦ \textbf{Answer}: V ¦ {\bf Answer:} V ¦ \section*{Answer}⏎V ¦ === ANSWER ===⏎V
--- ANSWER ---⏎V ¦ | Answer |⏎|---|⏎| V | ¦ <h3>Answer</h3>⏎<p>V</p> ¦ for an answer of $V$
V is therefore the answer. ¦ The final answer, m+n, is V. ¦ So, $n \in \{3, 4\}$, and the sum is\[\boxed{V}.\]
The two cases give 3 and 4, so the sum is $\boxed{V}$.
ANSWER:V ¦ ANSWER :V ¦ Answer: V ¦ answer: V ¦ **ANSWER: V** ¦ **ANSWER:** V ¦ **Answer**: V
**Answer:** **V** ¦ *Answer:* V ¦ __Answer:__ V ¦ ### ANSWER⏎V ¦ ## Final Answer⏎⏎**V** ¦ # Answer: V
**Final Answer**⏎⏎$V$ ¦ **Final Answer:** $V$ ¦ Final answer: V ¦ FINAL ANSWER: V
Final Answer: The final answer is $\boxed{V}$. I hope it is correct. ¦ The final answer is V.
The final answer is: V ¦ The final answer is: $V$. ¦ The final answer is $V$. ¦ The answer is V
The answer is **V**. ¦ The answer is therefore V. ¦ The answer is thus V. ¦ Therefore, the answer is V.
Therefore, the answer is $\boxed{V}$. ¦ Hence the answer is indeed V. ¦ So the answer is: **V** ¦ It is V
My answer is V. ¦ The answer to the problem is V. ¦ The answer would be V. ¦ The answer must be V.
The answer equals V. ¦ The answer turns out to be V. ¦ The answer comes out to V. ¦ V is the answer.
So **V** is the final answer. ¦ ANSWER = V ¦ ANSWER: V.⏎I hope that helps. ¦ <b>ANSWER:</b> V
<p>ANSWER: V</p> ¦ ANSWER：V ¦ ANSWER:⏎V ¦ ANSWER:⏎⏎V ¦ ANSWER:⏎$$⏎V⏎$$ ¦ ANSWER:⏎\[⏎V⏎\] ¦ ANSWER:⏎```⏎V⏎```
ANSWER:⏎```text⏎V⏎``` ¦ ANSWER: $$⏎V⏎$$ ¦ ANSWER:⏎\[⏎\boxed{V}⏎\] ¦ ANSWER:⏎**V** ¦ ANSWER:⏎⏎> V
ANSWER: V⏎ANSWER: N ¦ ANSWER: V⏎⏎ANSWER: V ¦ ANSWER: 999⏎No, I was wrong.⏎ANSWER: V ¦ ANSWER V ¦ "ANSWER: V"
`ANSWER: V` ¦ [ANSWER: V] ¦ (ANSWER: V) ¦ > ANSWER: V ¦ - ANSWER: V ¦ 1. ANSWER: V ¦ | ANSWER | V |
{"answer": V} ¦ {"answer": "V"} ¦ {"reasoning": "I think", "answer": V} ¦ ```json⏎{"answer": V}⏎```
\text{ANSWER: } V ¦ $\text{ANSWER: } V$ ¦ $\text{ANSWER: V}$ ¦ \textbf{ANSWER: V} ¦ $\textbf{ANSWER: }V$
\boxed{ANSWER: V} ¦ \boxed{\text{ANSWER: } V} ¦ \boxed{\text{ANSWER: V}} ¦ \boxed{V} ¦ \boxed V ¦ \boxed{ V }
\boxed{⏎ V⏎} ¦ \boxed{V.} ¦ \boxed{V.0} ¦ \boxed{{V}} ¦ \boxed{\,V\,} ¦ \boxed{$V$} ¦ \boxed{\boxed{V}}
\boxed{x = V} ¦ \boxed{m+n=V} ¦ \boxed{m + n = 20 + 5 = V} ¦ \boxed{V^\circ} ¦ \boxed{V^{\circ}}
\boxed{V \text{ degrees}} ¦ \boxed{V\text{ units}} ¦ \boxed{\textbf{V}} ¦ \boxed{\color{red}{V}}
\boxed{\underline{V}} ¦ $\boxed{V}$ ¦ $$\boxed{V}$$ ¦ $$⏎\boxed{V}⏎$$ ¦ \[\boxed{V}\] ¦ \[ \boxed{V}. \]
\(\boxed{V}\) ¦ **$\boxed{V}$** ¦ \fbox{V} ¦ \begin{align*}⏎m+n &= 20 + 5 \\⏎&= \boxed{V}⏎\end{align*}
$x = \boxed{V}$ ¦ $m+n=\boxed{V}$. ¦ $m + n = 20 + 5 = \boxed{V}$ ¦ $2x+1 \implies \boxed{V}$
$S \equiv \boxed{V} \pmod{1000}$ ¦ $\therefore \boxed{V}$ ¦ Thus, \boxed{V}. ¦ Thus \boxed{V} ways.
The answer is \boxed{V}! ¦ - \boxed{V} ¦ We get $\boxed{m+n=V}$, where $m=25$
We get $\boxed{m+n=V}$ because $m=25$ and $n=3$. ¦ $\boxed{V}$ is the answer since $m = 25$.
We get $m=25$, $n=3$, and the answer is $\boxed{V}$. ¦ \boxed{V}⏎⏎ANSWER: N
$\boxed{V}$⏎⏎Note the answer: must be an integer. ¦ $\boxed{V}$⏎⏎Note: the answer is between 0 and 999.
$\boxed{V}$⏎⏎(The answer is an integer, as asked.) ¦ \boxed{V}⏎⏎ANSWER: see above
First I had \boxed{999}. But it is \boxed{V}. ¦ \boxed{999} is what I first had. ANSWER: V ¦ <answer>V</answer>
<answer> V </answer> ¦ <answer>⏎V⏎</answer> ¦ <ANSWER>V</ANSWER> ¦ <answer>$V$</answer>
<answer>ANSWER: V</answer> ¦ <answer>\boxed{V}</answer> ¦ <final_answer>V</final_answer>
<answer>The answer is V.</answer> ¦ <answer>m + n = V</answer> ¦ V ¦ V⏎ ¦ **V** ¦ $V$ ¦ `V` ¦ V. ¦ \\boxed{V}
**ANSWER: V** ¦ ***ANSWER: V*** ¦ Answer - see below.⏎⏎ANSWER: V ¦ Final Answer = V ¦ final_answer = V
ANSWER -> V ¦ ANSWER → V ¦ ANSWER — V ¦ Thus, the final answer is: $\boxed{V}$
The final answer is $V$. I hope it is correct. ¦ **Final Answer**⏎⏎The final answer is \(\boxed{V}\).
### Final Answer⏎⏎\[⏎\boxed{V}⏎\] ¦ ### Final Answer:⏎V ¦ **Answer: $V$** ¦ $$\text{ANSWER: } \boxed{V}$$
So we have $p+q=V$.⏎⏎ANSWER: V ¦ ANSWER: V⏎⏎Let me double-check: 25 + 3 = 28.
ANSWER: V⏎⏎---⏎⏎Note: this uses m = 25. ¦ Therefore $m+n = \boxed{V}$, as desired.
Therefore the requested sum is $20+5=\boxed{V}$. ¦ Thus the answer is $20 + 5 = \boxed{V}.$
Hence, $m+n=20+5=\boxed{\textbf{(V)}}$. ¦ \boxed{\mathbf{V}}. ¦ \boxed{\mathrm{V}} ¦ \boxed{V\ }
\boxed{\text{V}} ¦ \boxed{\,V} ¦ \[ \boxed{\;V\;} \] ¦ **Therefore, the answer is \boxed{V}.**
*Therefore, the answer is* **V**. ¦ $\Rightarrow\boxed{V}$ ¦ $\boxed{V}\quad\blacksquare$
$\boxed{V}_{\square}$ ¦ The value of $m+n$ is $\boxed{V}$. ¦ The value of $m+n$ is: $\boxed{V}$.
The remainder is $\boxed{V}$. ¦ is $\boxed{V}$ square units. ¦ $AB^2 = \boxed{V}$ ¦ Answer: \(V\)
Answer: \[ V \] ¦ Answer: $$⏎V⏎$$ ¦ ANSWER: V⏎</answer> ¦ <think>ANSWER: 999</think>ANSWER: V ¦ The answer: V
So, the answer: V. ¦ Final answer — V ¦ FINAL ANSWER: **V** ¦ Final Answer: V⏎Confidence: 95%
ANSWER: V⏎CONFIDENCE: 0.9 ¦ **Answer**⏎⏎V⏎⏎**Explanation**⏎⏎m = 25
**Answer:**⏎⏎$$V$$⏎⏎**Explanation:** m = 25, n = 3 ¦ Answer: V is the final answer.
Answer: The number of ways is V. ¦ Answer: The requested value is V. ¦ Answer: The required remainder is $V$.
✅ ANSWER: V ¦ ➡️ **ANSWER: V** ¦ ---⏎ANSWER: V⏎--- ¦ ```⏎ANSWER: V⏎``` ¦ ```⏎V⏎``` ¦ $$V$$ ¦ \[V\]
\boxed{V}⏎⏎**ANSWER: N** ¦ \boxed{V}⏎⏎The last line is of the form "ANSWER: N". ¦ \boxed{V}⏎⏎ANSWER: <N>
\boxed{V}⏎⏎ANSWER: [integer] ¦ \boxed{V}⏎⏎ANSWER: $N$ ¦ \boxed{V}⏎⏎ANSWER: ¦ \boxed{V}⏎⏎ANSWER: as boxed above
\boxed{V}⏎⏎Note the answer: three digits. ¦ I must end with "ANSWER: N". ANSWER: V
The format is ANSWER: N, where N is an integer from 0 to 999.⏎⏎ANSWER: V ¦ Answer = \boxed{V} ¦ answer=V
Answer is V ¦ answer is: V. ¦ The correct answer is V. ¦ The correct answer is: **V** ¦ Our final answer is V.
Thus, our answer is $\boxed{V}$. ¦ the answer is ~V ¦ The answer is `V`. ¦ The answer is "V".
The answer, therefore, is V. ¦ The answer, then, is V. ¦ The answer is simply V. ¦ The answer is exactly V.
The answer is precisely $V$. ¦ The answer is the integer V. ¦ The answer is given by V.
The answer is equal to V. ¦ The answer to this problem is **V**. ¦ The answer for part (b) is V.
The answer should be V. ¦ The answer will be V. ¦ The answer has to be V. ¦ Therefore the answer must be $V$.
The answer is 20 + 5 = V. ¦ The answer is $m+n=V$. ¦ The answer is m + n = 20 + 5 = V.
The answer is V, as desired. ¦ The answer is V because m=25. ¦ The answer is V since 20 + 5 is that.
The answer is: \boxed{V} ¦ Answer: 20 + 5 = V ¦ Answer: $20+5=V$
"""
WRONG_BEHIND_ANSWER = r"""
{V}{3} ¦ (V)(3) ¦ x ≡ V (mod 7) ¦ 2x ≡ V (mod 1000) ¦ V ≡ 999 (mod 1000) ¦ -V (mod 1000) ¦ V (mod x) ¦ V (mod 1000) or 999
V minutes and 30 seconds ¦ V:00 ¦ V < 999 ¦ \boxed{V} < 999 ¦ 999 (not V) ¦ \sqrt{V^2} ¦ V \bmod 1000
[V, ¦ (V, ¦ {V, ¦ V. Actually it is 999. ¦ V. Wait, it should be 999. ¦ V⏎Actually 999. ¦ V⏎No, 999. ¦ V (wrong)
V (mod 7) ¦ x =/= V ¦ x = 3 and y = V ¦ x = V; y = 3 ¦ x = \pm V ¦ V..999 ¦ V^{th} ¦ V^\circ + 3 ¦ \max\{V, 3\}
3:V ¦ V, ... ¦ x - V = 0
V\sqrt{3} ¦ V\pi ¦ Vπ ¦ V√2 ¦ V^2 ¦ V^{2} ¦ V² ¦ V\cdot 2 ¦ V\times 2 ¦ V × 2 ¦ V * 2 ¦ V{,}000 ¦ V\,000
V 000 ¦ V,000 ¦ V_000 ¦ V + x ¦ V + 5 ¦ V - 5 ¦ V x ¦ Vx ¦ V : 5 ¦ V/5 ¦ \frac{V}{5} ¦ \frac{5}{V}
{V \choose 2} ¦ \binom{V}{2} ¦ V mod 7 ¦ V \pmod 7 ¦ V! ¦ V% ¦ V\% ¦ V.5 ¦ V,5 ¦ .V ¦ 0.V ¦ 0,V ¦ -V ¦ −V ¦ - V
\pm V ¦ ±V ¦ V or 999 ¦ V and 999 ¦ V, 999 ¦ V; 999 ¦ V / 999 ¦ V (or 999) ¦ V, or 999 ¦ V. Or 999.
V or possibly 999 ¦ either V or 999 ¦ {V, 999} ¦ \{V, 999\} ¦ [V, 999] ¦ (V, 999) ¦ (V; 999) ¦ [V, 999)
V to 999 ¦ V–999 ¦ V-999 ¦ V...999 ¦ 999 V ¦ 999, V ¦ 999 or V ¦ V V ¦ x >= V ¦ >= V ¦ > V ¦ < V ¦ ≥ V
x \ge V ¦ x \leq V ¦ n != V ¦ n \neq V ¦ not V ¦ at least V ¦ at most V ¦ less than V ¦ more than V ¦ about V
2x = V ¦ -x = V ¦ x + 1 = V ¦ x^2 = V ¦ x/2 = V ¦ \sqrt{x} = V ¦ x = 3 = V ¦ 3 = V ¦ V = 3 ¦ V thousand
V hundred ¦ V e3 ¦ Ve3 ¦ V x 10^3 ¦ V \times 10^3 ¦ V kg ¦ V_8 ¦ V_{8} ¦ 0xV ¦ 1V ¦ V1 ¦ aV ¦ Va ¦ #V
\sqrt{V} ¦ |V - 3| ¦ \log V ¦ ~~V~~ ¦ ~~V~~ 999 ¦ <s>V</s> 999 ¦ \mathcal{V} ¦ \frac{V}{1}
V if n is even, 999 if n is odd ¦ V for even n ¦ unknown ¦ 999. I first had V. ¦ ٤ ¦ V\ 000 ¦ V~000 ¦ V'000
V.000.000 ¦ 1,V ¦ 1{,}V ¦ 1 V ¦ 1\,V ¦ V}{2 ¦ V(2) ¦ (V)(2) ¦ 2(V) ¦ V\left(2\right) ¦ V\frac{1}{2} ¦ V\tfrac12
V½ ¦ V 1/2 ¦ V⅓ ¦ V\div 2 ¦ V÷2 ¦ V\pm 1 ¦ V ± 1 ¦ V percent ¦ V\ldots ¦ V… ¦ V... ¦ V\dots ¦ V^\prime ¦ V^n
V^x ¦ 2^V ¦ 2^{V} ¦ x^V ¦ x_V ¦ x_{V} ¦ \log_{V} ¦ \sqrt[3]{V} ¦ \sqrt V ¦ √V ¦ \lfloor V.5 \rfloor
\overline{V} ¦ \text{not } V ¦ \neq V ¦ \approx V.3 ¦ V\text{ or }999 ¦ V\text{ and }999 ¦ V \lor 999
V\,\text{or}\,999 ¦ V \quad 999 ¦ V \ \text{and}\ 999 ¦ V | 999 ¦ V\\999 ¦ V & 999 ¦ V, 999, 1 ¦ V vs 999
V (999) ¦ V [999] ¦ V = 999 ¦ x = V, y = 999 ¦ x = V or x = 999 ¦ x = V, 999 ¦ x ∈ {V, 999} ¦ x \in \{V\}
x ≡ V + 1 ¦ x \to V^- ¦ x → V x ¦ V < x ¦ V < x < 999 ¦ V \le x ¦ V \leq x \leq 999 ¦ x < V ¦ 3x = V
2x + 1 = V ¦ x - 1 = V ¦ \frac{x}{2} = V ¦ \frac{1}{x} = V ¦ 1/x = V ¦ n! = V ¦ n^2 = V ¦ |x| = V ¦ 2^n = V
\log x = V ¦ half of it = V ¦ twice the sum = V ¦ V million ¦ V dozen ¦ V k ¦ VK ¦ V radians
V\pi \text{ units} ¦ V dollars or 999 dollars ¦ $V or $999 ¦ V^\circ or 999^\circ ¦ V or -V ¦ maybe V
probably V ¦ V? ¦ V or so ¦ V-ish ¦ approximately V ¦ ≈ V ¦ around V ¦ roughly V ¦ nearly V ¦ over V ¦ under V
up to V ¦ greater than V ¦ no more than V ¦ between 3 and V ¦ from 3 to V ¦ 3–V ¦ 3-V ¦ 3...V ¦ multiples of V
V choose 2 ¦ V P 2 ¦ C(V, 2) ¦ f(V) ¦ \gcd(V, 2) ¦ \sin V ¦ \sin V^\circ ¦ \text{V}\text{9} ¦ V\text{9}
**V**9 ¦ V**9** ¦ "V" or "999" ¦ `V` or `999` ¦ **V** or **999** ¦ $V$ or $999$ ¦ $V$, $999$ ¦ $V$ and $999$
$V$ - 3 ¦ $V$ + 3 ¦ $V$$x$ ¦ none of V, 999 ¦ neither V nor 999 ¦ V is wrong ¦ V is not the answer
V is too small ¦ V, but 999 is also possible ¦ V, or 999 if n is odd ¦ V unless n = 3 ¦ V when n = 3
V if n = 3 ¦ V plus 5 ¦ V minus 5 ¦ V times 5 ¦ V divided by 5 ¦ V over 5 ¦ V squared ¦ minus V ¦ negative V
(−V) ¦ $-V$ ¦ \text{-}V ¦ {-}V ¦ -\text{V} ¦ –V ¦ —V
"""
WRONG_REPLIES = r"""
{"answer": V/5} ¦ {"answer": V,000} ¦ {"answer": V or 999} ¦ {"answer": V\sqrt{3}} ¦ {"answer": V, 999}
{"answer": V e3} ¦ {"answer": {V}} ¦ {"answer": [V, x]} ¦ {"answer": "\frac{V}{3}"}
Suppose the answer is V. ¦ If the answer is V, then x = 3. ¦ I'm not sure the answer is V.
The answer is V or \boxed{999} ¦ \boxed{3}:\boxed{V} ¦ \boxed{V}(3) ¦ \boxed{V}{}^2 ¦ \boxed{3}/\boxed{V}
{"answer": {"m": V}} ¦ <answer>V</answer><answer>999</answer> ¦ The answer is x, where x^2 = V.
The answer is twice V.
So the final answer is V! ¦ ANSWER: V⏎999 ¦ ANSWER: V⏎ANSWER: 999 ¦ ANSWER: V⏎or 999 ¦ ANSWER:⏎V⏎999
ANSWER:⏎- V⏎- 999 ¦ ANSWER:⏎```⏎V⏎999⏎``` ¦ ANSWER: V⏎ANSWER: unknown ¦ V is near, but no ¦ I think V.
The answer is not V. ¦ The answer is at most V. ¦ The answer is V or 999. ¦ The answer is between V and 999.
The answer is 999, not V. ¦ \boxed{V}⏎\boxed{999} ¦ \boxed{V\sqrt{3}} ¦ \boxed{V\pi} ¦ \boxed{V^{2}}
\boxed{V{,}000} ¦ \boxed{V, 999} ¦ \boxed{V \text{ or } 999} ¦ \boxed{V} or \boxed{999}
$\boxed{V}$ or $\boxed{999}$ ¦ $\boxed{V}$ or $999$ ¦ \boxed{999} or \boxed{V} ¦ \boxed{999}, \boxed{V}
$\boxed{V}$ and $\boxed{999}$ ¦ \boxed{V}, \boxed{999} ¦ $999$ or $\boxed{V}$ ¦ -\boxed{V} ¦ $-\boxed{V}$
$2\boxed{V}$ ¦ $\frac{\boxed{V}}{2}$ ¦ $\sqrt{\boxed{V}}$ ¦ $x + \boxed{V}$ ¦ $x^{\boxed{V}}$
$\boxed{V}\sqrt{3}$ ¦ $\boxed{V}^2$ ¦ $\boxed{V}!$ ¦ $\boxed{V} + 5$ ¦ $\boxed{V}\pi$ ¦ $\boxed{V} \cdot 2$
$\boxed{V}0$ ¦ $x \neq \boxed{V}$ ¦ \boxed{2n=V} ¦ \boxed{x=3}, and not y = V ¦ \boxed{n \ge V}
\boxed{\frac{V}{2}} ¦ \boxed{V ¦ \boxed{V}⏎ANSWER: 999 ¦ <answer>V or 999</answer>
<answer>V</answer> or <answer>999</answer> ¦ <answer>V⏎999</answer> ¦ <answer>999</answer>
{"answer": [V, 999]} ¦ {"answer": V.5} ¦ {"answer": "V or 999"} ¦ V or 999 ¦ V, 999 ¦ V 999 ¦ V/2 ¦ V⏎999 ¦ 2V
Let V be given. ¦ ANSWER: $V$⏎ANSWER: $999$ ¦ The answer is V^2. ¦ The answer is V or 999
The answer is more than V. ¦ The answer is probably 999 or V. ¦ The answer is 999. V is too small.
The answer is V/2. ¦ The answer is x = V, y = 999. ¦ The answer is -V. ¦ The answer cannot be V.
The answer isn't V. ¦ The answer is not $\boxed{V}$ ¦ V is not the answer. ¦ V is not the final answer.
999 or V is the answer. ¦ -V is the answer. ¦ \boxed{V}$, $\boxed{999} ¦ \boxed{V} and \boxed{999}
\boxed{V}, \boxed{999}, \boxed{3} ¦ \boxed{V}\boxed{999} ¦ \boxed{V} \boxed{999} ¦ \boxed{V}/\boxed{999}
\boxed{V}-\boxed{999} ¦ \boxed{V}–\boxed{999} ¦ \boxed{V} to \boxed{999} ¦ \boxed{V or 999} ¦ \boxed{V;999}
\boxed{(V,999)} ¦ \boxed{\{V\}} ¦ \boxed{V\\999} ¦ \boxed{V}{999} ¦ \boxed{V}^{2} ¦ \boxed{V}_2 ¦ \boxed{V}x
\boxed{V}000 ¦ \boxed{V},000 ¦ \boxed{V}.5 ¦ \boxed{V}/2 ¦ \boxed{V}\% ¦ \boxed{V}% ¦ \boxed{-V}
\boxed{V} or 999 ¦ $\boxed{V} \text{ or } 999$ ¦ $\boxed{V} \text{ or } \boxed{999}$
$999 \text{ or } \boxed{V}$ ¦ $\dfrac{\boxed{V}}{3}$ ¦ $3 - \boxed{V}$ ¦ $3\cdot\boxed{V}$ ¦ $3\times\boxed{V}$
$a_{\boxed{V}}$ ¦ $2^{\boxed{V}}$ ¦ $x < \boxed{V}$ ¦ $x \le \boxed{V}$ ¦ $x \ge \boxed{V}$ ¦ not \boxed{V}
<answer>V</answer>⏎<answer>999</answer> ¦ <answer>V, 999</answer> ¦ <answer>-V</answer> ¦ <answer>V%</answer>
<answer>not V</answer> ¦ {"answer": V, "answer": 999} ¦ {"answer": -V} ¦ {"answers": [V]}
{"value": V} ¦ V V ¦ -V ¦ V% ¦ V! ¦ about V ¦ not V ¦ maybe V ¦ V? ¦ x > V
"""
LETTERS = r"""
Answer: It's C ¦ Answer: C! ¦ Answer: Letter C ¦ Answer: C is correct. ¦ Answer: According to the rule, C ¦ The correct answer is C: 5 eV
Option (C) is the correct answer. ¦ Answer: → C
C ¦ c ¦ C ¦ (C) ¦ C. ¦ C) ¦ **C** ¦ $C$ ¦ Answer: C ¦ Answer:C ¦ ANSWER: C ¦ answer: c ¦ answer: C
**Answer:** C ¦ **Answer: C** ¦ **Answer**: C ¦ Answer: **C** ¦ Answer: (C) ¦ Answer: **(C)** ¦ Answer: [C]
Answer: "C" ¦ Answer: 'C' ¦ Answer: `C` ¦ Answer: $C$ ¦ Answer: $\text{C}$ ¦ Answer: \text{C}
Answer: $\mathbf{C}$ ¦ Answer: $\boxed{C}$ ¦ Answer: \boxed{\text{C}} ¦ \boxed{C} ¦ $\boxed{C}$ ¦ \boxed{(C)}
\boxed{\text{(C)}} ¦ $\boxed{\textbf{(C)}~25}$ ¦ \boxed{C) 5 eV} ¦ \boxed{\text{C) 5 eV}} ¦ \boxed{C. 5 eV}
Answer:⏎C ¦ Answer:⏎⏎**C** ¦ Answer:⏎\[⏎\boxed{C}⏎\] ¦ Answer：C ¦ Answer: C. ¦ Answer: C) ¦ Answer: C) 5 eV
Answer: C. 5 eV ¦ Answer: C: 5 eV ¦ Answer: C - 5 eV ¦ Answer: C — 5 eV ¦ Answer: (C) 5 eV ¦ Answer: C (5 eV)
Answer: **C) 5 eV** ¦ Answer: **C**) 5 eV ¦ Answer: C) A proton and a neutron ¦ Answer: C. A molecule of water
Answer: C) Both spin or charge ¦ Answer: Option C ¦ Answer: option (C) ¦ Answer: Choice C
Answer: The correct answer is C ¦ Answer: The correct answer is C. ¦ Answer: the answer is (C).
Answer: C because the energy is lowest. ¦ Answer: C, since the energy is lowest ¦ The answer is C.
The answer is (C). ¦ The answer is **C**. ¦ The correct answer is C. ¦ The correct answer is **C) 5 eV**.
The correct option is C. ¦ The correct choice is (C). ¦ Therefore, the correct answer is C.
The final answer is $\boxed{C}$. ¦ So the answer is option C. ¦ The answer is: C ¦ My answer is C
Final answer: C ¦ **Final Answer:** C ¦ Final Answer: (C) ¦ ### Answer⏎C ¦ ### Answer: C
## Final Answer⏎⏎**C** ¦ <answer>C</answer> ¦ <answer>(C)</answer> ¦ <answer>C) 5 eV</answer> ¦ {"answer": "C"}
{"reasoning": "x", "answer": "C"} ¦ > Answer: C ¦ - Answer: C ¦ $Answer: C$ ¦ 'Answer: C' ¦ "Answer: C"
Answer: C<|im_end|> ¦ Answer: C ✅ ¦ Answer: A⏎Wait, no.⏎Answer: C ¦ Answer: $LETTER⏎Answer: C
Answer: C⏎⏎Answer: $LETTER ¦ A is wrong, B too.⏎⏎Answer: C ¦ C is the correct answer. ¦ Option C is the answer.
(C) is the correct answer. ¦ Option C ¦ Correct answer: C ¦ Correct option: C ¦ It is C. ¦ Answer = C
ANSWER C
"""
WRONG_LETTERS = r"""
Answer: C-14 ¦ Answer: C is incorrect ¦ Answer: C⏎Actually D ¦ Answer: anything but C
If the answer is C, then D is wrong. ¦ \boxed{C^+}
A ¦ B ¦ CA ¦ Answer: A ¦ Answer: C or A ¦ Answer: A or C ¦ Answer: C and A ¦ Answer: C, A ¦ Answer: C; A
Answer: C/A ¦ Answer: C & A ¦ Answer: C+A ¦ Answer: C-D ¦ Answer: A-C ¦ Answer: C–D ¦ Answer: C - D
Answer: CA ¦ Answer: CD ¦ Answer: (C, D) ¦ Answer: (C) or (A) ¦ Answer: C) or A) ¦ Answer: C (or A)
Answer: C or maybe A ¦ Answer: either C or A ¦ Answer: neither C nor A ¦ Answer: not C ¦ Answer: Not (C)
Answer: Can be A ¦ Answer: Carbon ¦ Answer: C60 ¦ Answer: C2H6 ¦ Answer: C++ ¦ Answer: 5 C
Answer: According to C, A ¦ Answer: Based on C ¦ Answer: All except C ¦ Answer: A⏎B ¦ Answer: C⏎A
Answer: C⏎Answer: A ¦ Answer: E ¦ Answer: 3 ¦ Answer: None ¦ Answer: none of them ¦ Answer: unknown ¦ Answer:
Answer: A) C ¦ Answer: A. C ¦ Answer: A) 5 C ¦ Answer: B (not C) ¦ Answer: C) A) ¦ Answer: C. A ¦ Answer: C: D
Answer: C) and D) ¦ \boxed{A} ¦ \boxed{C or A} ¦ \boxed{C, A} ¦ \boxed{C} or \boxed{A} ¦ \boxed{C}⏎\boxed{A}
\boxed{CD} ¦ \boxed{C_6} ¦ \boxed{A) C} ¦ The answer is C or A. ¦ The answer is not C.
The answer is either C or D. ¦ The answer is A, not C. ¦ The answer is A. ¦ C is wrong. ¦ C is not the answer.
C or A is the answer. ¦ <answer>C or A</answer> ¦ <answer>A</answer> ¦ {"answer": "A"} ¦ {"answer": ["C", "A"]}
Let me see: C could be. ¦ I considered C. ¦ C A ¦ C or A ¦ С ¦ Answer: С ¦ Answer: C = 5 ¦ Answer: C > A
"""

NUMBERS: list[tuple[Any, str, str]] = [
    (0.5, r"""
.5 ¦ 0.5 ¦ 0.50 ¦ +.5 ¦ $.5$ ¦ $0.5$ ¦ 1/2 ¦ \frac{1}{2} ¦ $\frac12$ ¦ \dfrac{1}{2} ¦ 5e-1 ¦ 5E-1 ¦ 5 \times 10^{-1} ¦ 5×10^-1
5 * 10**-1 ¦ 50 \cdot 10^{-2} ¦ \boxed{0.5} ¦ \boxed{.5} ¦ \boxed{\frac{1}{2}} ¦ \boxed{x = 0.5} ¦ x = 1/2 = 0.5
\frac{1}{2} = 0.5 ¦ 0.5 because it is ¦ ⏎0.5 ¦ ⏎```⏎0.5⏎``` ¦ ⏎```json⏎0.5⏎``` ¦ <answer>0.5</answer> ¦ **0.5**. ¦ ≈ 0.5
""", r"""
5 ¦ .5.5 ¦ 0.5.5 ¦ 0,5 ¦ -.5 ¦ −0.5 ¦ 0.5% ¦ 50% ¦ 0.5 or 1 ¦ 0.5, 1 ¦ 0.5 ± 0.1 ¦ 0.5... ¦ 0.5x ¦ 0.5\pi ¦ 0.5^2 ¦ 0.5e1
0.5 \times 10 ¦ 0.5 \times 10^3 ¦ 1/2/3 ¦ 1/2 + 1 ¦ 1 1/2 ¦ 2/1 ¦ 1/2x ¦ \frac{1}{2}x ¦ \frac{1}{2} + 3 ¦ > 0.5 ¦ x > 0.5
2x = 0.5 ¦ 1/0 ¦ 0.5⏎ANSWER: 1 ¦ 0.5⏎1 ¦ \boxed{0.5} or 1 ¦ 0.5⏎or 1 ¦ "0.5"x ¦ 0.5 to 0.6 ¦ 0.5-0.6 ¦ unknown ¦ \boxed{0.5} or \boxed{1}
"""),
    (5, r"5 ¦ 5.0 ¦ 10/2 ¦ 0.5e1 ¦ $5$ ¦ \boxed{5}", r".5 ¦ $.5$ ¦ 5.5 ¦ 2 5 ¦ 5^2 ¦ 5×4 ¦ 5⅓ ¦ 5 000 ¦ 5_8 ¦ 5!"),
    (-3.25, r"""
-3.25 ¦ −3.25 ¦ $-3.25$ ¦ -13/4 ¦ -\frac{13}{4} ¦ \boxed{-3.25} ¦ -325e-2 ¦ (-3.25) ¦ -3.25 \times 10^0 ¦ The answer is -3.25.
x = -3.25
""", r"3.25 ¦ -3.2 ¦ -3,25 ¦ - -3.25 ¦ 5-3.25 ¦ x-3.25 ¦ \boxed{5-3.25} ¦ 5\boxed{-3.25} ¦ -x = -3.25"),
    (1234567, r"""
1234567 ¦ 1,234,567 ¦ 1{,}234{,}567 ¦ 1\,234\,567 ¦ 1 234 567 ¦ 1◇234◇567 ¦ 1,234,567.0 ¦ 1.234567e6 ¦ 1.234567 \times 10^6
\boxed{1,234,567} ¦ \boxed{1{,}234{,}567}
""", r"1,234,56 ¦ 1,234 ¦ 1.234.567 ¦ 1,234,567,000 ¦ 12,34,567 ¦ 1, 234, 567 ¦ 1234 567 ¦ 01,234,567"),
    (2, "2", r"\boxed{2^{10}} ¦ 2^{10} ¦ \boxed{2\sqrt{3}} ¦ \boxed{2\cdot 5} ¦ 2² ¦ 2 mod 5"),
    (1, "1", r"\boxed{1{,}000} ¦ \boxed{1\,000} ¦ 1,000 ¦ 1 000"),
]  # fmt: skip


GRIDS = r"""
Here is the output for the test input:⏎⏎J ¦ Applying the rule to the input: J ¦ - [0, 1, 2]⏎- [3, 4, 5]
1. [0, 1, 2]⏎2. [3, 4, 5] ¦ J⏎⏎mapping: [[1, 2], [3, 4]] ¦ Initially O. After the rotation: J
```json⏎{"output": J}⏎```
J ¦ ```⏎J⏎``` ¦ ```json⏎J⏎``` ¦ ```python⏎J⏎``` ¦ ANSWER: J ¦ **ANSWER:**⏎J ¦ Answer:⏎```json⏎J⏎```
<answer>J</answer> ¦ <answer>⏎012⏎345⏎</answer> ¦ \boxed{J} ¦ $\boxed{J}$ ¦ The output is J. ¦ The answer is:⏎⏎J
Output: J ¦ Final answer:⏎J ¦ [[0,1,2],[3,4,5]] ¦ [[0, 1, 2], [3, 4, 5],] ¦ [[0, 1, 2,], [3, 4, 5,],]
[⏎  [0, 1, 2],⏎  [3, 4, 5]⏎] ¦ [⏎  [0, 1, 2],⏎  [3, 4, 5],⏎] ¦ [⏎ [⏎  0,⏎  1,⏎  2⏎ ],⏎ [⏎  3,⏎  4,⏎  5⏎ ]⏎]
[[0 1 2]⏎ [3 4 5]] ¦ np.array([[0, 1, 2], [3, 4, 5]]) ¦ array([[0, 1, 2],⏎       [3, 4, 5]])
output = [[0, 1, 2], [3, 4, 5]] ¦ {"output": [[0, 1, 2], [3, 4, 5]]} ¦ {"answer": [[0, 1, 2], [3, 4, 5]]}
["012", "345"] ¦ ["0 1 2", "3 4 5"] ¦ ['012', '345'] ¦ 0 1 2⏎3 4 5 ¦ 012⏎345 ¦ 0,1,2⏎3,4,5 ¦ 0, 1, 2⏎3, 4, 5
0⇥1⇥2⏎3⇥4⇥5 ¦ 0|1|2⏎3|4|5 ¦ 0 | 1 | 2⏎3 | 4 | 5 ¦ | 0 | 1 | 2 |⏎| 3 | 4 | 5 |
| 0 | 1 | 2 |⏎|---|---|---|⏎| 3 | 4 | 5 | ¦ | | | |⏎|---|---|---|⏎| 0 | 1 | 2 |⏎| 3 | 4 | 5 |
| a | b | c |⏎|---|---|---|⏎| 0 | 1 | 2 |⏎| 3 | 4 | 5 | ¦ [0, 1, 2]⏎[3, 4, 5] ¦ [0, 1, 2],⏎[3, 4, 5]
[0 1 2]⏎[3 4 5] ¦ "012"⏎"345" ¦ Row 1: 0 1 2⏎Row 2: 3 4 5 ¦ Row 1: [0, 1, 2]⏎Row 2: [3, 4, 5] ¦ ```⏎0 1 2⏎3 4 5⏎```
```⏎012⏎345⏎``` ¦ ```⏎[0, 1, 2]⏎[3, 4, 5]⏎``` ¦ \begin{bmatrix} 0 & 1 & 2 \\ 3 & 4 & 5 \end{bmatrix}
$$\begin{bmatrix}⏎0 & 1 & 2 \\⏎3 & 4 & 5⏎\end{bmatrix}$$ ¦ \[\begin{pmatrix}0&1&2\\3&4&5\end{pmatrix}\]
$\begin{array}{ccc}⏎0 & 1 & 2 \\⏎3 & 4 & 5 \\⏎\end{array}$
\boxed{\begin{bmatrix} 0 & 1 & 2 \\ 3 & 4 & 5 \end{bmatrix}} ¦ ANSWER:⏎0 1 2⏎3 4 5
**Output:**⏎⏎0 1 2⏎3 4 5⏎⏎This follows from the pattern. ¦ J⏎⏎The changed cells are [[0, 1], [1, 2]].
J⏎⏎Changed coordinates: [[0, 1, 1], [1, 2, 0]] ¦ J⏎⏎Positions (row, column): [[0,1],[1,2]]
J⏎⏎In example 1: [[9, 9, 9], [9, 9, 9]]. ¦ J⏎⏎as in Example 2:⏎O ¦ ANSWER: J⏎⏎For comparison, the input was O.
ANSWER: J⏎⏎Compare example 1: O ¦ Output:⏎```⏎J⏎```⏎⏎The input was:⏎```⏎O⏎``` ¦ The input is O. The output is J.
Example 1 output: O⏎⏎Test output: J ¦ Example 1:⏎O⏎⏎J ¦ Training input:⏎9 9 9⏎9 9 9⏎⏎Output:⏎0 1 2⏎3 4 5
First idea: O⏎⏎Final: J ¦ O⏎⏎Actually, that is wrong. Corrected output:⏎J ¦ ```⏎O⏎```⏎⏎```⏎J⏎```
The grid is 2x3.⏎⏎J ¦ I see 3 objects. The answer:⏎J ¦ J⏎⏎The shape is [2, 3]. ¦ J in (0, 5] ¦ <output>⏎J⏎</output>
J⏎⏎for all in (0, 5] ¦ for all in (0, 5]: J ¦ J as in [0] ¦ the [answer] is J i.e. a] ¦ [so it is⏎J ¦ [so it is⏎J⏎in (0, 5]
O was the example. [[0, 1, 2],⏎ [3, 4, 5]]] ] ¦ ```json⏎J⏎```⏎[1, 2] is its first row; ["x"] ]]
Here's my response:⏎⏎J ¦ > 0 1 2⏎> 3 4 5 ¦ `0 1 2`⏎`3 4 5` ¦ 0 1 2  ⏎3 4 5   ¦   0 1 2⏎  3 4 5
"""
WRONG_GRIDS = r"""
O⏎⏎J is the input. ¦ Test input:⏎J ¦ ANSWER: O. Not J. ¦ 0 1 2⏎3 4 -5
O ¦ [[0, 1, 2], [3, 4]] ¦ [[0, 1], [2, 3], [4, 5]] ¦ [[0, 1, 2, 3, 4, 5]] ¦ [[3, 4, 5], [0, 1, 2]]
[[0, 1, 2], [3, 4, 6]] ¦ [[0, 1, 2]] ¦ [[0, 1, 2], [3, 4, 5], [0, 0, 0]] ¦ [[0, 1, 2], [3, 4, 5.0]]
[[0, 1, 2], [3, 4, "5"]] ¦ [[0, 1, 2], [3, 4, true]] ¦ [0, 1, 2, 3, 4, 5] ¦ 0 1 2 3 4 5 ¦ 012345 ¦ 0 1 2⏎3 4 6
0 1 2⏎3 4 ¦ 0 1 2⏎⏎3 4 5 6 ¦ 10 1 2⏎3 4 5 ¦ 0 1 2⏎3 4 50 ¦ 0 1 2⏎3 4 5⏎6 7 8 ¦ J⏎⏎Actually, the output is O.
J⏎⏎Wait. Final answer:⏎O ¦ J⏎⏎Corrected:⏎O ¦ J⏎ANSWER: O ¦ ANSWER: O⏎⏎J ¦ ANSWER: [[0, 1, 2], [3, 4]]
ANSWER:⏎```⏎O⏎```⏎⏎Example:⏎J ¦ <answer>O</answer> J ¦ \boxed{O} ¦ Input: J ¦ The input is J. ¦ Example 1: J
Example output:⏎J ¦ Training output:⏎J⏎Output: O ¦ The output is not J. ¦ Coordinates: J ¦ ```⏎J⏎```⏎```⏎O⏎```
J⏎⏎Output:⏎9 9 9⏎9 9 9 ¦ 012⏎344 ¦ | 0 | 1 | 2 |⏎| 3 | 4 | 6 |
\begin{bmatrix} 0 & 1 & 2 \\ 3 & 4 & 6 \end{bmatrix} ¦ \begin{bmatrix} 0 & 1 & 2 & 3 & 4 & 5 \end{bmatrix}
["012", "346"] ¦ ["012345"] ¦ [[0 1 2]⏎ [3 4 6]] ¦ no grid ¦ [] ¦ [[]] ¦ {} ¦ I cannot solve it.
[[-0, 1, 2], [3, 4, -5]] ¦ [[0, 1, 2], [3, 4, 5] ¦ 0 1 2 ¦ 0 1 2⏎then⏎3 4 5 ¦ 0 1 2 = 3 4 5
[["a", 1, 2], [3, 4, 5]] ¦ Output: 0 1 2⏎3 4 6
"""


def forms(table: str) -> Iterator[str]:
    for row in table.strip("\n").splitlines():
        yield from (form.translate(_SIGNS) for form in row.split(" ¦ "))


def is_right(params: dict[str, Any], reply: str) -> bool:
    try:
        return match_of(params).grade(reply, is_reply=True) == 1
    except Wrong:
        return False


def misread(
    params: dict[str, Any], table: str, *, right: bool, prefix: str = "", value: object = ""
) -> list[str]:
    """The forms of a table that are not what they should be."""
    written = (
        prefix + re.sub("V", str(value), form) if value != "" else prefix + form for form in forms(table)
    )
    return [reply for reply in written if is_right(params, reply) is not right]


@pytest.mark.parametrize("value", [468, 25, 7, 104])
def test_an_integer_is_read_whole_or_not_at_all(value: int) -> None:
    params = {**_INTEGER, "expected": value}
    for prefix in ("ANSWER: ", "So $m = 25$ and $n = 3$.\n\n**Answer:** "):
        assert misread(params, BEHIND_ANSWER, right=True, prefix=prefix, value=value) == []
        assert misread(params, WRONG_BEHIND_ANSWER, right=False, prefix=prefix, value=value) == []
    for match in (params, {"match": "number", "expected": value}):
        assert misread(match, REPLIES, right=True, value=value) == []
        assert misread(match, WRONG_REPLIES, right=False, value=value) == []


@pytest.mark.parametrize(("value", "right", "wrong"), NUMBERS, ids=lambda value: str(value)[:8].strip())
def test_a_number_is_read_whole_or_not_at_all(value: float, right: str, wrong: str) -> None:
    params = {"match": "number", "expected": value, "tolerance": 1e-9}
    assert misread(params, right, right=True, prefix="ANSWER: ") == []
    assert misread(params, wrong, right=False, prefix="ANSWER: ") == []
    if isinstance(value, int):
        assert misread({"match": "integer", "expected": value}, wrong, right=False, prefix="ANSWER: ") == []


SPELLINGS: dict[str, tuple[float, str]] = {
    "decimal": (0.5, "0.5 ¦ 0.500 ¦ 00.5"),
    "without a zero": (0.5, ".5 ¦ .50"),
    "negative": (-3.25, "-3.25 ¦ −3.25"),
    "grouped": (1234567, r"1,234,567 ¦ 1{,}234{,}567 ¦ 1\,234\,567 ¦ 1 234 567"),
    "fraction": (0.5, "1/2 ¦ 2 / 4 ¦ 0.5/1"),
    "fraction of TeX": (0.5, r"\frac{1}{2} ¦ \dfrac12 ¦ \tfrac{2}{4}"),
    "negative fraction": (-0.5, r"-\frac{1}{2} ¦ -1/2"),
    "scientific": (1234567, "1.234567e6 ¦ 1234.567E3 ¦ 1.234567e+06"),
    "times a power of ten": (0.5, r"5 \times 10^{-1} ¦ 5×10^-1 ¦ 50 \cdot 10^{-2} ¦ 5 * 10**-1"),
    "power of ten": (0.001, "10^{-3} ¦ 10^-3 ¦ 10**-3"),
    "percent": (5, r"5% ¦ 5\% ¦ 5.0 % ¦ 5\,\%"),
}
"""Kinds of numbers: a value, and how it is written. The tables of integers tell what may be around each of them."""
OF_DIGITS = {
    *forms(r"$\frac{50}{2} = V$ ¦ +V ¦ 0V ¦ 00V ¦ V.0 ¦ V.00 ¦ \boxed{V.0} ¦ \boxed V ¦ ≈ V ¦ \frac{V}{1}")
}
"""What is so only around bare digits."""
OF_INTEGERS = re.compile(r"mod\b|°|\\circ|degrees|units")
"""What no other number has beside it, and no number that has another unit."""


@pytest.mark.parametrize("kind", SPELLINGS)
def test_a_number_of_any_kind_is_read_as_an_integer_is(kind: str) -> None:
    value, spellings = SPELLINGS[kind]
    params = {"match": "number", "expected": value, "units": ["%", r"\%"] if kind == "percent" else []}
    for table, right in (
        (BEHIND_ANSWER, True), (REPLIES, True), (WRONG_BEHIND_ANSWER, False), (WRONG_REPLIES, False)
    ):  # fmt: skip
        prefix = "ANSWER: " if table in (BEHIND_ANSWER, WRONG_BEHIND_ANSWER) else ""
        around = [form for form in forms(table) if form not in OF_DIGITS and not OF_INTEGERS.search(form)]
        assert len(around) >= 100
        replies = [prefix + form.replace("V", one) for one in forms(spellings) for form in around]
        assert [reply for reply in replies if is_right(params, reply) is not right] == []


def test_a_text_is_the_whole_of_a_final_answer() -> None:
    right = r"""
Paris ¦ ANSWER: Paris. ¦ **ANSWER:** "Paris" ¦ ANSWER: $\text{Paris}$ ¦ ANSWER:⏎```⏎Paris⏎``` ¦ \boxed{\text{Paris}} ¦ The answer is Paris.
<answer>Paris</answer> ¦ {"answer": "Paris"} ¦ ANSWER: Rome⏎ANSWER: Paris ¦ so⏎ANSWER: Paris ¦ so⏎ANSWER: `Paris`.
so⏎ANSWER: **Paris**. ¦ so⏎ANSWER:⏎ Paris⏎then
"""
    wrong = r"""
ANSWER: Paris or Rome ¦ ANSWER: paris ¦ ANSWER: Paris⏎ANSWER: Rome ¦ \boxed{Rome} or \boxed{Paris} ¦ The answer is not Paris.
ANSWER: Paris or so ¦ so⏎ANSWER: Pari ¦ Pari
"""
    for expected in ("Paris", " Paris "):
        params = {"match": "exact", "expected": expected}
        assert misread(params, right, right=True) == []
        assert misread(params, wrong, right=False) == []


def test_units_are_those_that_the_task_allows() -> None:
    params = {"match": "number", "expected": 5, "units": ["eV", "%"]}
    right = r"5 eV ¦ $5\,\mathrm{eV}$ ¦ \boxed{5\text{ eV}} ¦ 5% ¦ 5\,eV."
    assert misread(params, right, right=True, prefix="ANSWER: ") == []
    assert misread(params, r"5 keV ¦ 5 eV or 6 eV ¦ 5 eV^2 ¦ 5 e", right=False, prefix="ANSWER: ") == []
    assert not is_right({**params, "units": []}, "ANSWER: 5 eV")


def test_a_letter_is_read_whole_or_not_at_all() -> None:
    params = {"match": "choice", "expected": "C"}
    assert misread(params, LETTERS, right=True) == []
    assert misread(params, WRONG_LETTERS, right=False) == []


def test_the_official_rule_of_gpqa_is_the_published_code() -> None:
    draw = random.Random(1)
    every = [
        *forms(LETTERS),
        *forms(WRONG_LETTERS),
        *forms(BEHIND_ANSWER),
        "Answer: $C$ and Answer : D",
        "answer:\tB",
    ]
    for _ in range(1000):
        reply = " ".join(draw.choices(every, k=3)).replace("V", draw.choice("ABCD"))
        found = re.search(r"(?i)Answer[ \t]*:[ \t]*\$?([A-D])\$?", reply)
        extracted = found.group(1) if found else None
        for letter in "ABCD":
            params = {"match": "choice", "expected": letter, "official": "simple-evals"}
            assert is_right(params, reply) == (extracted == letter), reply


def test_a_grid_is_read_in_any_form_where_it_is_the_answer() -> None:
    params = {"match": "grid", "expected": [[[0, 1, 2], [3, 4, 5]]], "tries": 2}
    written = {"J": "[[0, 1, 2], [3, 4, 5]]", "O": "[[9, 9, 9], [9, 9, 9]]"}
    for table, right in ((GRIDS, True), (WRONG_GRIDS, False)):
        replies = [re.sub(r"\b[JO]\b", lambda name: written[name[0]], form) for form in forms(table)]
        assert [reply for reply in replies if is_right(params, json.dumps([reply, "no"])) is not right] == []
        behind = f'ANSWER: [{{"attempt_1": {written["J"]}}}] in (0, 5]'
        assert [reply for reply in replies if not is_right(params, f"{reply}\n{behind}")] == []


WRAPPERS = (
    *("**V**", "*V*", "`V`", "$V$", "$$V$$", r"\(V\)", r"\[V\]", "(V)", "{V}", "\"V\"", "'V'", "“V”", r"\text{V}", r"\mathbf{V}"),
    *(r"\boxed{V}", r"$\boxed{V}$", "<b>V</b>", "V.", " V ", "\tV", r"\,V\,", r"\textbf{V}", r"\displaystyle V", "⏎V⏎"),
)  # fmt: skip
PLACES = ("ANSWER: V", "**ANSWER:** V", "Answer: V", r"\boxed{V}", "<answer>V</answer>", "The answer is V", "ANSWER:⏎V")  # fmt: skip
JOINS = (" or ", ", ", " and ", " + ", "/", r" \cdot ", "–", " to ", "; ", " ", "^", "⏎", r"\text{ or }", " × ", ", or ")  # fmt: skip
VALUES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "integer": ({**_INTEGER, "most": 10**9}, ("468", "7", "25", "1000")),
    "choice": ({}, ("A", "B", "C", "D")),
}


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_what_wraps_a_right_answer_leaves_it_right_and_another_value_makes_it_wrong(
    kind: str, data: Any
) -> None:
    more, values = VALUES[kind]
    value, other = data.draw(st.permutations(values))[:2]
    params = {"match": kind, **more, "expected": int(value) if kind == "integer" else value}
    place = data.draw(st.sampled_from(PLACES))
    wrapped = value
    for wrapper in data.draw(st.lists(st.sampled_from(WRAPPERS), max_size=2)):
        wrapped = wrapper.replace("V", wrapped)
    reply = place.replace("V", wrapped).translate(_SIGNS)
    assert is_right(params, reply), reply
    joined = value + data.draw(st.sampled_from(JOINS)) + other
    reply = place.replace("V", joined).translate(_SIGNS)
    assert not is_right(params, reply), reply
