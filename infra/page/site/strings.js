// Every text of the page. A translation is one more object with the same keys;
// `{name}` is filled in.

export const LANGUAGES = {
  en: {
    language: 'English',
    sale: 'Flash sale',
    units: '{units} units, {limit} each',
    skip: 'Skip to the sale',

    step_enter: 'Enter', step_draw: 'Draw', step_claim: 'Claim', step_pay: 'Pay', steps: 'Steps',

    loading_kicker: 'One moment', loading_title: 'Loading the sale', loading_text: 'We are asking the server how it stands.',
    early_kicker: 'Opens {opens}', early_title: 'Starting soon',
    early_draw: 'You have {window} to tap. Being first gives no advantage: every tap in that time has the same chance.',
    early_race: 'First come, first served. The button goes live by our clock, not your device’s.',
    open_kicker: 'Open now', open_title: 'The draw is open', open_text: 'One tap is enough. Closes in {left}; until then every tap has the same chance.',
    race_title: 'On sale now', race_text: 'One tap, and we try to hold a unit for you.',
    late_kicker: 'Draw closed', late_title: 'You can still join the line', late_text: 'The draw’s {window} are over. You would stand behind everyone who took part in it, in order of arrival.',
    drawing_kicker: 'You’re in', drawing_title: 'The draw is running', drawing_text: 'We are counting the entries; the lowest tickets may buy. Keep this page open: it goes on by itself.',
    waiting_kicker: 'Your place in line', waiting_text: 'Places up to {admitted} may buy now. If units are left over, the next places follow, and this page claims for you.',
    waitlist_kicker: 'Waitlist', waitlist_title: 'Number {ahead} on the waitlist', waitlist_text: 'All units are held, but not all will be paid. Usually about {expected} of {units} come back. That a unit gets to you is {likelihood}.',
    likely: 'likely', possible: 'possible', unlikely: 'unlikely',
    admitted_kicker: 'It’s your turn', admitted_title: 'Claiming a unit for you', admitted_text: 'Nothing to do. Claims are spread over a few seconds, so that every one gets through.',
    confirming_kicker: 'Almost there', confirming_title: 'Confirming your unit', confirming_text: 'Your claim is stored. We are writing the order.',
    hold_kicker: 'Held for you until {until}', hold_title: 'Pay to make it yours', take_title: 'Confirm to make it yours', hold_text: 'After that the unit goes to the next in line. Nothing is charged before you pay.',
    paying_kicker: 'Held for you', paying_title: 'Your payment is on its way', paying_text: 'This takes a moment. You can close this page: the payment counts all the same.',
    paid_kicker: 'Paid', paid_title: 'It’s yours', paid_text: 'Thank you. Your order:\n{order}',
    lapsed_kicker: 'Hold ended', lapsed_title: 'This unit went to the next in line', lapsed_text: 'It was not paid in time, or given back. Nothing was charged.',
    voided_kicker: 'Not confirmed', voided_title: 'We could not confirm your unit', voided_text: 'We are sorry. Nothing was charged.',
    sold_out_kicker: 'Sold out', sold_out_title: 'Every unit is paid', sold_out_text: 'All {units} have found an owner. Thank you for taking part.',
    ended_kicker: 'Closed', ended_title: 'The sale has ended', ended_text: 'Thank you for taking part.',
    barred_kicker: 'Not possible', barred_title: 'This account can’t take part', barred_text: 'As many accounts as the sale allows share their details with it.',

    days: 'days', hours: 'hours', minutes: 'min', seconds: 'sec',
    opens_in: 'Opens in {left}', pay_within: '{left} left to pay',
    place: '{place} of {everyone}', line: 'Place {place} of {everyone}',
    you: 'You', may_buy: '{count} may buy', held: '{count} units held',

    enter: 'Enter the draw', entering: 'Sending your tap …', join: 'Join the line', buy: 'Buy now', buying: 'One moment …',
    opens_at: 'Opens {opens}', pay: 'Pay {price}', take: 'Take it, it costs nothing', starting: 'Starting the payment …', resume: 'Continue to pay',
    give_back: 'Give it back', sure: 'Really give it back?', subscribe: 'Tell me if one comes back', subscribed: 'We will tell you.',
    pass_ready: 'Your pass is ready.', pass_wait: 'Getting your pass …',

    offline: 'No connection. We keep trying; nothing you did is lost.',
    slow: 'The server is busy. We keep trying; nothing you did is lost.',
    paused: 'The sale is paused for a moment. Nothing is lost; it goes on here by itself.',
    no_session: 'Please sign in to the store to take part.',
    not_found: 'There is no sale of this name yet.',
    declined: 'The payment was declined. You can try again while the unit is held.',
    too_late: 'The hold had ended before the payment began.',
    fault: 'That did not work, and repeating it would not help. You keep your place in line.',

    how: 'How do I know that the draw is fair?',
    how_text: 'Tickets come from a secret number and your pass. Before the first pass was issued we published the secret’s fingerprint, so it can’t be changed. After the sale we publish the secret itself, and this page recomputes your ticket.',
    commitment: 'Fingerprint', pass: 'Your pass', ticket: 'Your ticket', none: 'not yet',
    check: 'Check', sealed: 'The secret is sealed until the sale has ended.',
    check_good: 'The secret fits the fingerprint, and your ticket is the one it gives.',
    check_line: 'You were number {place} of {everyone}; the line was drawn at {admitted}.',
    check_fits: 'The secret fits the fingerprint.', check_bad: 'This does not fit. Please tell the store.',
  },
  hi: {
    language: 'हिन्दी',
    sale: 'फ़्लैश सेल',
    units: '{units} यूनिट, हर व्यक्ति को {limit}',
    skip: 'सीधे सेल पर जाएँ',

    step_enter: 'प्रवेश', step_draw: 'ड्रॉ', step_claim: 'दावा', step_pay: 'भुगतान', steps: 'चरण',

    loading_kicker: 'एक क्षण', loading_title: 'सेल खुल रही है', loading_text: 'हम सर्वर से स्थिति पूछ रहे हैं।',
    early_kicker: '{opens} पर शुरू', early_title: 'जल्द ही शुरू',
    early_draw: 'टैप करने के लिए {window} मिलेंगे। पहले टैप करने से लाभ नहीं: इस समय में हर टैप का मौक़ा बराबर है।',
    early_race: 'पहले आएँ, पहले पाएँ। बटन हमारी घड़ी से चालू होता है, आपके डिवाइस की घड़ी से नहीं।',
    open_kicker: 'अब खुला है', open_title: 'ड्रॉ खुला है', open_text: 'एक टैप काफ़ी है। {left} में बंद होगा; तब तक हर टैप का मौक़ा बराबर है।',
    race_title: 'बिक्री चालू है', race_text: 'एक टैप, और हम आपके लिए एक यूनिट रोकने की कोशिश करेंगे।',
    late_kicker: 'ड्रॉ बंद', late_title: 'आप अब भी कतार में लग सकते हैं', late_text: 'ड्रॉ के {window} पूरे हो गए। आप उसमें शामिल सभी लोगों के पीछे, आने के क्रम में रहेंगे।',
    drawing_kicker: 'आप शामिल हैं', drawing_title: 'ड्रॉ चल रहा है', drawing_text: 'हम प्रविष्टियाँ गिन रहे हैं; सबसे छोटे टिकट वाले ख़रीद सकेंगे। यह पेज खुला रखें: यह अपने आप आगे बढ़ेगा।',
    waiting_kicker: 'कतार में आपकी जगह', waiting_text: 'अभी {admitted} तक की जगहें ख़रीद सकती हैं। यूनिट बचीं तो अगली जगहों की बारी आएगी, और यह पेज आपके लिए दावा करेगा।',
    waitlist_kicker: 'प्रतीक्षा सूची', waitlist_title: 'प्रतीक्षा सूची में नंबर {ahead}', waitlist_text: 'सभी यूनिट रोकी गई हैं, पर सबका भुगतान नहीं होगा। आम तौर पर {units} में से लगभग {expected} लौटती हैं। आप तक यूनिट पहुँचना {likelihood} है।',
    likely: 'की संभावना अच्छी', possible: 'संभव', unlikely: 'की संभावना कम',
    admitted_kicker: 'आपकी बारी है', admitted_title: 'आपके लिए यूनिट का दावा हो रहा है', admitted_text: 'कुछ करना नहीं है। दावे कुछ सेकंड में बाँटे जाते हैं, ताकि हर एक पहुँचे।',
    confirming_kicker: 'बस थोड़ा और', confirming_title: 'आपकी यूनिट की पुष्टि हो रही है', confirming_text: 'आपका दावा दर्ज है। हम ऑर्डर लिख रहे हैं।',
    hold_kicker: '{until} तक आपके लिए', hold_title: 'भुगतान करें और यह आपका', take_title: 'पुष्टि करें और यह आपका', hold_text: 'उसके बाद यूनिट अगले व्यक्ति को मिलेगी। भुगतान से पहले कुछ नहीं कटता।',
    paying_kicker: 'आपके लिए रोकी गई', paying_title: 'आपका भुगतान हो रहा है', paying_text: 'इसमें थोड़ा समय लगता है। आप यह पेज बंद कर सकते हैं: भुगतान फिर भी गिना जाएगा।',
    paid_kicker: 'भुगतान हुआ', paid_title: 'यह आपका है', paid_text: 'धन्यवाद। आपका ऑर्डर:\n{order}',
    lapsed_kicker: 'समय समाप्त', lapsed_title: 'यह यूनिट अगले व्यक्ति को मिली', lapsed_text: 'समय पर भुगतान नहीं हुआ, या इसे लौटा दिया गया। कुछ नहीं कटा।',
    voided_kicker: 'पुष्टि नहीं हुई', voided_title: 'हम आपकी यूनिट की पुष्टि नहीं कर सके', voided_text: 'हमें खेद है। कुछ नहीं कटा।',
    sold_out_kicker: 'बिक गया', sold_out_title: 'हर यूनिट का भुगतान हो चुका है', sold_out_text: 'सभी {units} यूनिट बिक गईं। भाग लेने के लिए धन्यवाद।',
    ended_kicker: 'बंद', ended_title: 'सेल समाप्त हो गई', ended_text: 'भाग लेने के लिए धन्यवाद।',
    barred_kicker: 'संभव नहीं', barred_title: 'यह खाता भाग नहीं ले सकता', barred_text: 'जितने खातों की अनुमति है, उतने पहले से इसी जानकारी वाले हैं।',

    days: 'दिन', hours: 'घंटे', minutes: 'मिनट', seconds: 'सेकंड',
    opens_in: '{left} में शुरू', pay_within: 'भुगतान के लिए {left} बाक़ी',
    place: '{everyone} में {place}', line: '{everyone} में जगह {place}',
    you: 'आप', may_buy: '{count} ख़रीद सकते हैं', held: '{count} यूनिट रोकी गईं',

    enter: 'ड्रॉ में शामिल हों', entering: 'आपका टैप भेजा जा रहा है …', join: 'कतार में लगें', buy: 'अभी ख़रीदें', buying: 'एक क्षण …',
    opens_at: '{opens} पर शुरू', pay: '{price} चुकाएँ', take: 'ले लें, कुछ चुकाना नहीं है', starting: 'भुगतान शुरू हो रहा है …', resume: 'भुगतान जारी रखें',
    give_back: 'लौटा दें', sure: 'सच में लौटा दें?', subscribe: 'यूनिट लौटे तो बताएँ', subscribed: 'हम आपको बताएँगे।',
    pass_ready: 'आपका पास तैयार है।', pass_wait: 'आपका पास लिया जा रहा है …',

    offline: 'कनेक्शन नहीं है। हम कोशिश जारी रखे हैं; आपका कुछ नहीं खोया।',
    slow: 'सर्वर व्यस्त है। हम कोशिश जारी रखे हैं; आपका कुछ नहीं खोया।',
    paused: 'सेल थोड़ी देर रुकी है। कुछ नहीं खोया; यह यहीं अपने आप आगे बढ़ेगी।',
    no_session: 'भाग लेने के लिए स्टोर में साइन इन करें।',
    not_found: 'इस नाम की सेल अभी नहीं है।',
    declined: 'भुगतान अस्वीकार हुआ। जब तक यूनिट रोकी है, आप फिर कोशिश कर सकते हैं।',
    too_late: 'भुगतान शुरू होने से पहले समय समाप्त हो गया।',
    fault: 'यह नहीं हो सका, और दोहराने से लाभ नहीं। कतार में आपकी जगह बनी है।',

    how: 'मुझे कैसे पता चले कि ड्रॉ निष्पक्ष है?',
    how_text: 'टिकट एक गुप्त संख्या और आपके पास से बनता है। पहला पास जारी होने से पहले हमने गुप्त संख्या की छाप प्रकाशित की, इसलिए उसे बदला नहीं जा सकता। सेल के बाद हम संख्या प्रकाशित करते हैं, और यह पेज आपका टिकट फिर से निकालता है।',
    commitment: 'छाप', pass: 'आपका पास', ticket: 'आपका टिकट', none: 'अभी नहीं',
    check: 'जाँच', sealed: 'सेल समाप्त होने तक संख्या गुप्त है।',
    check_good: 'संख्या छाप से मेल खाती है, और आपका टिकट उसी से बना है।',
    check_line: '{everyone} में आपकी जगह {place} थी; रेखा {admitted} पर खिंची।',
    check_fits: 'संख्या छाप से मेल खाती है।', check_bad: 'मेल नहीं खाता। कृपया स्टोर को बताएँ।',
  },
};

/** The first of these languages that there is; English otherwise. */
export function languageOf(wanted) {
  const known = wanted.map((tag) => tag.slice(0, 2).toLowerCase()).find((tag) => Object.hasOwn(LANGUAGES, tag));
  return known ?? 'en';
}

/** A text with its gaps filled. */
export function say(language, key, gaps = {}) {
  return LANGUAGES[language][key].replace(/\{(\w+)\}/g, (gap, name) => gaps[name] ?? gap);
}
