"""Chat templates, written for the tests, that use the same constructs as published templates, and
conversations to render with them.
"""
import itertools

# Each key names the model whose published template the entry resembles.
TEMPLATES = {
    "llama2": """{% if messages[0]['role'] == 'system' %}
{% set rest = messages[1:] %}
{% set told = messages[0]['content'] %}
{% else %}
{% set rest = messages %}
{% set told = false %}
{% endif %}
{% for m in rest %}
{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Turns must alternate') }}{% endif %}
{% if loop.index0 == 0 and told != false %}
{% set text = '<<S>>\\n' + told + '\\n<</S>>\\n\\n' + m['content'] %}
{% else %}
{% set text = m['content'] %}
{% endif %}
{% if m['role'] == 'user' %}
{{ bos_token + '[I] ' + text.strip() + ' [/I]' }}
{% elif m['role'] == 'assistant' %}
{{ ' ' + text.strip() + ' ' + eos_token }}
{% endif %}
{% endfor %}
""",
    "llama3": """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not date is defined %}
    {%- if strftime_now is defined %}
        {%- set date = strftime_now("%Y") %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{#- the first message may be the system's #}
{%- if messages[0]['role'] == 'system' %}
    {%- set told = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set told = "" %}
{%- endif %}
{{- "<|head|>system<|/head|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Tools: yes\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- "Year " + date + "\\n\\n" + told + "<|end|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|head|>' + message['role'] + '<|/head|>\\n\\n'+ message['content'] | trim + '<|end|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("One call at once!") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '{"name": "' + call.name + '", ' }}
        {%- for name, value in call.arguments | items %}
            {{- name + '="' ~ value ~ '"' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- endif %}
        {%- endfor %}
        {{- "}<|end|>" }}
    {%- else %}
        {{- "<|head|>tool<|/head|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable and message.content is not string %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|end|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|head|>assistant<|/head|>\\n\\n' }}
{%- endif %}
""",
    "mistral": """{%- if messages[0]["role"] == "system" %}
    {%- set told = messages[0]["content"] %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set turns = messages %}
{%- endif %}
{%- set users = turns | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in turns %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("Roles must alternate: user/assistant/...") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in turns %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and told is defined %}
            {{- "[I]" + told + "\\n\\n" + message["content"] + "[/I]" }}
        {%- else %}
            {{- "[I]" + message["content"] + "[/I]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" and message.content %}
        {{- " " + message["content"] + eos_token}}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[CALLS][" }}
        {%- for call in message.tool_calls %}
            {%- set out = call.function|tojson %}
            {{- out[:-1] }}
            {{- ', "id": "' + call.id|default('none') + '"}' }}
            {{- ", " if not loop.last else "]" + eos_token }}
        {%- endfor %}
    {%- elif message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[R]{"content": ' + content|string + "}[/R]" }}
    {%- else %}
        {{- raise_exception("Only these roles") }}
    {%- endif %}
{%- endfor %}
({{ users|length }} {{ users | map(attribute='content') | join('/') }})
""",
    "qwen2": """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|a|>system\\nBe good.<|z|>\\n' }}{% endif %}{{'<|a|>' + message['role'] + '\\n' + message['content'] + '<|z|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|a|>assistant\\n' }}{% endif %}""",
    "qwen3": """{%- if tools %}
    {{- '<|a|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|z|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|a|>system\\n' + messages[0].content + '<|z|>\\n' }}
{%- endif %}
{%- set ns = namespace(searching=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and message.content is string and not(message.content.startswith('<r>') and message.content.endswith('</r>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|a|>' + message.role + '\\n' + content + '<|z|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set thought = '' %}
        {%- if '</t>' in content %}
            {%- set thought = content.split('</t>')[0].rstrip('\\n').split('<t>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</t>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or (not loop.last and thought)) %}
            {{- '<|a|>' + message.role + '\\n<t>\\n' + thought.strip('\\n') + '\\n</t>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|a|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
                {%- if call.function %}{%- set call = call.function %}{%- endif %}
                {{- '<c>{"name": "' ~ call.name }}
                {%- if call.arguments is string %}{{- call.arguments }}{%- else %}{{- call.arguments | tojson }}{%- endif %}
            {%- endfor %}
        {%- endif %}
        {{- '<|z|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|a|>user' }}
        {%- endif %}
        {{- '\\n<r>\\n' ~ message.content ~ '\\n</r>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|z|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|a|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<t>\\n\\n</t>\\n\\n' }}
    {%- endif %}
{%- endif %}""",
    "phi3": """{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>\\n' + message['content'] + '<|end|>\\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\\n' + message['content'] + '<|end|>\\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\\n' + (message['content'] or '') + '<|end|>\\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}""",
    "gemma": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set before = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set before = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set turns = messages[1:] -%}
{%- else -%}
    {%- set before = "" -%}
    {%- set turns = messages -%}
{%- endif -%}
{%- for message in turns -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Turns must alternate user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<turn>' + role + '\\n' + (before if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content") }}
    {%- endif -%}
    {{ '</turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<turn>model\\n'}}
{%- endif -%}
""",
    "zephyr": """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}""",
    "macros": """{%- macro typed(p, level=0) %}
  {%- if p.type is mapping %}{{ typed(p.type, level + 1) }}{% else %}{{ p.type ~ '@' ~ level }}{% endif %}
{%- endmacro %}
{%- set ns = namespace(out=[], first=true) -%}
{% for message in messages %}
  {%- set previous = loop.previtem.role if loop.previtem is defined else '-' %}
  {%- set ns.out = ns.out + [message.role[:2] | upper ~ previous | title] %}
  {%- generation %}{{ (message.content if message.content is string else '?') | replace('\\n', ' ') | capitalize }}{% endgeneration %}
  {%- if loop.nextitem is defined and loop.nextitem.role == message.role %}={% endif %}
{% endfor %}
{{ ns.out }} {{ typed({'type': {'type': 'x'}}) }} {{ ns.out | join(', ') | tojson }} {{ messages | length / 2 }}
{%- set block %}
  <{{ messages | map(attribute='role') | unique | list }}>
{% endset %}
{{- block | trim | indent(2, true) }} {{ {'b': 1, 'a': [1.5, none, true, 'é"\\'']} }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 1e16 }} {{ 0.1 + 0.2 }}
{% for word in 'a b  c'.split() if word != 'b' %}{{ loop.index }}{{ word }}{{ loop.revindex0 }};{% else %}none{% endfor %}
""",
    "string methods": """{% for m in messages %}{% set t = m.content if m.content is string else 'x y' %}
{{ t.strip() }}|{{ t.lstrip() }}|{{ t.rstrip('!? ') }}|{{ t.upper() }}|{{ t.lower() }}|{{ t.title() }}|{{ t | title }}|{{ t | capitalize }}
{{ t.split() }}|{{ t.split(' ', 1) }}|{{ t.split('\\n') }}|{{ t.replace('e', '<e>', 2) }}|{{ t.startswith(('H', 'W')) }}|{{ t[2:-2] }}|{{ t[::-1] }}|{{ t | length }}
{{ t | tojson }}|{{ t | tojson(ensure_ascii=true) }}|{{ [t, [t]] }}|{{ t | first | default('none', true) }}|{{ t.rsplit(none, 1) }}|{{ t.find('o') }}|{{ t.count('l') }}|{{ t | reverse }}
{{ t | list | last | default('-') }}|{{ t.removeprefix('H') }}|{{ t.replace('', '.', 3) }}|{{ ','.join(t.split()) }}|{{ t is lower }}|{{ t.isdigit() }}|{{ t * 2 }}|{{ t < 'M' }}
{% endfor %}""",
}

TEXTS = ["Hello there!", "  What is\n 2 + 2 ?  ", "", "Größe ßẞ ĲǄ 日本語 🙂👩‍👩‍👧 שלום", "a\tb\r\nc \u00a0\u2003x\u3000", "it's \"quoted\" \\ </s><s>[I]",
         "<t>\nhm\n</t>\n\nSo: {{ x }} {% y %}", "ΟΔΥΣΣΕΥΣ ΣΑΣ", "O'NEIL mc-donald 3rd", "<r>data</r>"]


def turns(*roles_and_texts):
    return [{"role": role, "content": text} for role, text in roles_and_texts]


def conversations():
    """Return conversations as lists of messages: first those that every template accepts, then some
    that certain templates reject.
    """
    out = []
    for first, second in itertools.product(TEXTS, TEXTS[:4]):
        out.append(turns(("user", first)))
        out.append(turns(("system", second), ("user", first)))
        out.append(turns(("user", second), ("assistant", first), ("user", second)))
        out.append(turns(("system", first), ("user", second), ("assistant", first), ("user", first), ("assistant", second)))
    out.append(turns(("assistant", "I begin"), ("user", "You do")))
    out.append(turns(("user", "a"), ("user", "b")))
    out.append(turns(("system", "a"), ("system", "b"), ("user", "c")))
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": [2.5, None, "ü"], "c": {"d": True}}}}
    out.append(turns(("user", "add")) + [{"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "content": "3"}])
    out.append(turns(("user", "add")) + [{"role": "assistant", "content": None, "tool_calls": [call, call]}, {"role": "tool", "content": {"content": 3}}])
    out.append([{"role": "user", "content": [{"type": "text", "text": " look "}, {"type": "image"}]}])
    return out
